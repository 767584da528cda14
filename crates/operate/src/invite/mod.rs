//! Invites: made, listed, revoked.

pub mod kinds;
pub mod patterns;
pub mod line;
pub mod landing;
pub mod replace;

use std::collections::BTreeSet;

use ground::random;
use identity::head::{Cause, Head};
use identity::id::{Digest, InviteId};
use identity::principal::glob::NameGlob;
use identity::principal::label::Label;
use identity::principal::{Address, Name, NodeName};
use identity::time::{Seconds, Timestamp};
use ipnet::IpNet;
use ledger::views::{self, InviteView};
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Right, Uses};
use org::ledger::draft::Wish;

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::session::desk::Desk;
use crate::session::{Made, OperateError, Session};

use kinds::Terms;

/// What an operator asks for.
#[derive(Debug, Clone)]
pub struct InviteWish {
    pub label: String,
    pub uses: Uses,
    pub ttl: Seconds,
    pub names: Vec<NameGlob>,
    pub networks: Vec<IpNet>,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    /// The gateways at which it can be used; the one that is asked, if none is named.
    pub at: Vec<NodeName>,
    /// What its line downloads.
    pub files: BTreeSet<Digest>,
    pub approval: Approval,
    pub approvers: u8,
    pub terms: Terms,
}

/// The longest that an invite may live.
const MAX_TTL: Seconds = Seconds::DAY.times(366);

impl<D: Desk> Session<D> {
    pub async fn create_invite(
        &mut self,
        keys: &SignerKeys,
        wish: &InviteWish,
    ) -> Result<Made<(Invite, InviteCode)>, OperateError> {
        if wish.ttl.0 == 0 || wish.ttl > MAX_TTL {
            return Err(OperateError::Unwise(format!("an invite lives between 1s and {MAX_TTL}")));
        }
        if wish.label.chars().count() > 200 || wish.label.chars().any(char::is_control) {
            return Err(OperateError::Unwise("a label is at most 200 characters of plain text".to_owned()));
        }
        let signers = self.known.signers.quorum.signers().len();
        if wish.approvers == 0 || usize::from(wish.approvers) > signers {
            return Err(OperateError::Unwise(format!("between 1 and {signers} signers can approve")));
        }
        wish.check_kind()?;
        let root = self.pinned_root().await?;
        let id = random::invite_id()?;
        let (key, ticket) = wish.terms.kind.draw(self.known.org(), id)?;
        let made = self
            .publish(keys, |session, now| {
                let invite = Invite {
                    id,
                    label: wish.label.clone(),
                    signers: session.known.signers.version,
                    kind: wish.terms.kind.of_invite(),
                    key,
                    rights: session.rights(&wish.at, wish.uses)?,
                    created_at: now,
                    expires_at: now + wish.ttl,
                    names: wish.names.clone(),
                    hosts: wish.terms.hosts.clone(),
                    networks: wish.networks.clone(),
                    labels: wish.labels.clone(),
                    roles: wish.roles.clone(),
                    approval: wish.approval,
                    approvers: wish.approvers,
                    files: wish.files.clone(),
                    root: Some(root),
                };
                Ok((Handed::of(session.seal(&invite)?), invite))
            })
            .await?;
        let code = InviteCode {
            org: self.known.org(),
            name: self.known.founding.record.name.clone(),
            signers_floor: self.known.signers.as_ref(),
            head_floor: self.known.head.head.version,
            endpoint_root: root,
            gateways: self.addresses_of(&made.what.rights),
            ticket,
        };
        Ok(Made { what: (made.what, code), pending: made.pending, roll: made.roll })
    }

    /// Uses are handed out among the gateways, so that no two spend the same.
    fn rights(&self, at: &[NodeName], uses: Uses) -> Result<Vec<Right>, OperateError> {
        let mut gateways: Vec<NodeName> = Vec::new();
        for gateway in if at.is_empty() { std::slice::from_ref(&self.survey.gateway) } else { at } {
            if !self.mandates().iter().any(|mandate| mandate.gateway == *gateway) {
                return Err(OperateError::NoSuch { what: "gateway", name: gateway.to_string() });
            }
            if !gateways.contains(gateway) {
                gateways.push(gateway.clone());
            }
        }
        let count = u32::try_from(gateways.len()).unwrap_or(u32::MAX);
        let share = |nth: u32| match uses {
            Uses::Unlimited => Ok(Uses::Unlimited),
            Uses::Limited(all) if all < count => Err(OperateError::Unwise(format!(
                "{all} use(s) cannot be handed to {count} gateways: give more uses, or name fewer gateways"
            ))),
            Uses::Limited(all) => Ok(Uses::Limited(all / count + u32::from(nth < all % count))),
        };
        let right = |(nth, gateway): (u32, NodeName)| {
            Ok(Right { voice: self.mandate_of(&gateway)?.voice, gateway, uses: share(nth)? })
        };
        (0..).zip(gateways).map(right).collect()
    }

    /// Where an invite can be used: at gateways that have a right to it, and nowhere else.
    fn addresses_of(&self, rights: &[Right]) -> Vec<Address> {
        let of = |right: &Right| {
            let mandate = self.mandates().iter().find(|mandate| mandate.gateway == right.gateway);
            let listed = mandate.map(|mandate| mandate.addresses.clone()).unwrap_or_default();
            let own = listed.is_empty() && right.gateway == self.survey.gateway;
            if own { self.survey.addresses.clone() } else { listed }
        };
        rights.iter().flat_map(of).collect()
    }

    /// Every invite, as this home's own fold has it.
    pub async fn invites(&mut self) -> Result<Vec<InviteView>, OperateError> {
        let observed = self.observed().await?;
        Ok(views::invites(&*self.fold_here().await?, &observed))
    }

    /// By id, by the beginning of an id, or by label.
    pub async fn invite(&mut self, wanted: &str) -> Result<InviteView, OperateError> {
        let invites = self.invites().await?;
        let no_such = || OperateError::NoSuch { what: "invite", name: wanted.to_owned() };
        let mut fits =
            invites.into_iter().filter(|invite| invite.id.to_string().starts_with(wanted) || invite.label == wanted);
        let first = fits.next().filter(|_| !wanted.is_empty()).ok_or_else(no_such)?;
        match fits.next() {
            Some(_) => Err(OperateError::Unwise(format!("several invites fit `{wanted}`: give more of the id"))),
            None => Ok(first),
        }
    }

    /// Machines that are already in stay, for the head lists them; whoever comes in later does not count.
    pub async fn revoke_invite(&mut self, keys: &SignerKeys, view: &InviteView) -> Result<Made<u64>, OperateError> {
        let id = view.id;
        self.publish(keys, |session, now| {
            let head = session.draft_invite_revocation(id, now)?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }

    pub fn draft_invite_revocation(&self, id: InviteId, now: Timestamp) -> Result<Head, OperateError> {
        let wish = Wish { revoke_invites: vec![id], ..Wish::default() };
        self.next_head_with(now, Cause::InviteRevoke { invite: id }, (&wish, None), |_| {})
    }
}
