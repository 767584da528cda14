//! Invites: made, listed, revoked.

pub mod kinds;
pub mod bundle;
pub mod patterns;
pub mod line;
pub mod landing;
pub mod replace;
pub mod user;

use std::collections::BTreeSet;

use ground::random;
use identity::head::{Cause, Head};
use identity::id::InviteId;
use identity::key::PublicKey;
use identity::principal::glob::NameGlob;
use identity::principal::label::Label;
use identity::principal::{Address, Name, NodeName};
use identity::time::{Seconds, Timestamp};
use ipnet::IpNet;
use kinds::InviteTerms;
use ledger::views::{self, InviteView};
use line::{Kit, Start};
use manifest::fleet::ROLE_OPERATOR;
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Right, Uses};
use org::ledger::draft::Wish;

use crate::gateway::mandate_of;
use crate::key::SignerKeys;
use crate::node::observed;
use crate::session::{Aim, Made, NextHead, OperateError, Result, Session, Unsigned, Unwise};
use crate::trust::versions::pinned_root;

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
    pub kit: Option<Kit>,
    /// How many heads come before anybody may join with it.
    pub after: u64,
    pub approval: Approval,
    pub approvers: u8,
    pub terms: InviteTerms,
}

/// The longest that an invite may live.
const MAX_TTL: Seconds = Seconds::DAY.times(366);

/// An invite, and what is handed to whoever joins with it.
#[derive(Debug)]
pub struct NewInvite {
    pub invite: Invite,
    pub code: InviteCode,
    /// What its line fetches first.
    pub start: Option<Start>,
}

pub async fn create(session: &mut Session, keys: &SignerKeys, wish: &InviteWish) -> Result<Made<NewInvite>> {
    wish.check(session.signers().quorum.signers().len())?;
    let root = pinned_root(session).await?;
    let id = random::invite_id()?;
    let (key, ticket) = wish.terms.draw(session.known.org(), id)?;
    let code = InviteCode {
        org: session.known.org(),
        name: session.known.founding.record.name.clone(),
        signers_floor: session.signers().as_ref(),
        head_floor: session.head().version.saturating_add(wish.after),
        endpoint_root: root,
        gateways: addresses_of(session, &rights(session, &wish.at, wish.uses)?),
        ticket,
    };
    let start = match &wish.kit {
        Some(kit) => Start::hand_in(session, kit, &code).await?,
        None => None,
    };
    let files = wish.kit.iter().flat_map(Kit::files).chain(start.iter().map(|start| start.digest)).collect();
    let made = session
        .publish(keys, |session, now| {
            let invite = Invite {
                id,
                label: wish.label.clone(),
                signers: session.signers().version,
                kind: wish.terms.kind.of_invite(),
                key,
                rights: rights(session, &wish.at, wish.uses)?,
                created_at: now,
                expires_at: now + wish.ttl,
                names: wish.names.clone(),
                hosts: wish.terms.hosts.clone(),
                networks: wish.networks.clone(),
                labels: wish.labels.clone(),
                roles: wish.roles.clone(),
                approval: wish.approval,
                approvers: wish.approvers,
                files: BTreeSet::clone(&files),
                root: Some(root),
            };
            Ok(Unsigned { objects: vec![session.seal(&invite)?], next: None, what: invite })
        })
        .await?;
    Ok(made.map(|invite| NewInvite { invite, code, start }))
}

impl InviteWish {
    /// Why such an invite had better not be made, if so.
    fn check(&self, signers: usize) -> Result<(), Unwise> {
        if self.ttl.0 == 0 || self.ttl > MAX_TTL {
            return Err(Unwise::InviteSpan(MAX_TTL));
        }
        if self.label.chars().count() > 200 || self.label.chars().any(char::is_control) {
            return Err(Unwise::LongLabel);
        }
        if self.approvers == 0 || usize::from(self.approvers) > signers {
            return Err(Unwise::Approvers(signers));
        }
        if self.terms.kind == kinds::InviteChoice::Pattern { self.check_pattern() } else { Ok(()) }
    }

    fn check_pattern(&self) -> Result<(), Unwise> {
        if self.networks.is_empty() {
            return Err(Unwise::PatternFromAnywhere);
        }
        if self.terms.hosts.is_empty() && self.names.iter().any(NameGlob::is_any) {
            return Err(Unwise::PatternForAny);
        }
        if self.roles.iter().any(|role| role.as_str() == ROLE_OPERATOR) {
            return Err(Unwise::PatternForOperators);
        }
        Ok(())
    }
}

/// Uses are handed out among the gateways, so that no two spend the same.
fn rights(session: &Session, at: &[NodeName], uses: Uses) -> Result<Vec<Right>> {
    let mut gateways: Vec<(&NodeName, PublicKey)> = Vec::new();
    for gateway in if at.is_empty() { std::slice::from_ref(&session.survey.gateway) } else { at } {
        let right = (gateway, mandate_of(session.head(), gateway)?.voice);
        if !gateways.contains(&right) {
            gateways.push(right);
        }
    }
    let count = u32::try_from(gateways.len()).unwrap_or(u32::MAX);
    let share = |nth: u32| match uses {
        Uses::Unlimited => Ok(Uses::Unlimited),
        Uses::Limited(uses) if uses < count => Err(Unwise::TooFewUses { uses, gateways: count }),
        Uses::Limited(all) => Ok(Uses::Limited(all / count + u32::from(nth < all % count))),
    };
    let right = |(nth, (gateway, voice)): (u32, (&NodeName, PublicKey))| {
        Ok(Right { voice, gateway: gateway.clone(), uses: share(nth)? })
    };
    (0..).zip(gateways).map(right).collect()
}

/// Where an invite can be used: at gateways that have a right to it, and nowhere else.
fn addresses_of(session: &Session, rights: &[Right]) -> Vec<Address> {
    let of = |right: &Right| {
        let listed = mandate_of(session.head(), &right.gateway).map(|mandate| mandate.addresses.clone());
        let listed = listed.unwrap_or_default();
        let own = listed.is_empty() && right.gateway == session.survey.gateway;
        if own { session.survey.addresses.clone() } else { listed }
    };
    rights.iter().flat_map(of).collect()
}

/// Every invite, as this home's own fold has it.
pub async fn all(session: &mut Session) -> Result<Vec<InviteView>> {
    let observed = observed(session).await?;
    Ok(views::invites(&*session.fold_here().await?, &observed))
}

/// By id, by the beginning of an id, or by label.
pub async fn find(session: &mut Session, wanted: &str) -> Result<InviteView> {
    let invites = all(session).await?.into_iter();
    let mut fits = invites.filter(|invite| invite.id.to_string().starts_with(wanted) || invite.label == wanted);
    let first = fits.next().filter(|_| !wanted.is_empty());
    let first = first.ok_or_else(|| OperateError::no_such("invite", wanted))?;
    match fits.next() {
        Some(_) => Err(Unwise::SeveralFit { what: "invites", wanted: wanted.to_owned() }.into()),
        None => Ok(first),
    }
}

/// Machines that are already in stay, for the head lists them; whoever comes in later does not count.
pub async fn revoke(session: &mut Session, keys: &SignerKeys, id: InviteId) -> Result<Made<Head>> {
    session.publish_head(keys, |session, now| draft_revocation(session, id, now)).await
}

pub fn draft_revocation(session: &Session, id: InviteId, now: Timestamp) -> Result<NextHead> {
    let wish = Wish { revoke_invites: vec![id], ..Wish::default() };
    session.next_head(now, Aim::new(Cause::InviteRevoke { invite: id }, wish), |_| {})
}
