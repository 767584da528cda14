//! Reads what a turn of trust could break: members, invites, issuing keys. What is signed is checked here.

use ground::clock;
use identity::bundle::{Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::{Head, Mandate};
use identity::id::KeyId;
use org::admission::open_invite;
use org::gateway::Issuers;
use org::invite::Uses;
use pki_types::CertificateDer;
use wire::control::{Answer, Call, InviteView};

use super::{Held, LiveInvite, Scene};
use crate::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    /// Everything that a step in this domain could break.
    pub async fn scene(&mut self, domain: Domain) -> Result<Scene, OperateError> {
        let held = match domain {
            Domain::Endpoint => self.held::<Endpoint>().await?,
            Domain::Identity => self.held::<Identity>().await?,
        };
        let members = self.stances().await?.all();
        let (mut invites, mut waiting) = (Vec::new(), Vec::new());
        // Who may be a member nobody pins beforehand.
        if domain == Domain::Endpoint {
            invites = self.live_invites().await?;
            let founders = self.known.founding.endpoint_fingerprint();
            let (machines, _) = self.waiting().await?;
            waiting = machines.into_iter().map(|it| (it.claim.name, it.invite.root.unwrap_or(founders))).collect();
        }
        let issued = self.issued(domain).await?;
        let now_so = Head { trust: self.lines(), ..self.known.head.head.clone() };
        Ok(Scene { domain, head: now_so, held, members, invites, waiting, issued, now: clock::now() })
    }

    async fn held<T: InDomain>(&mut self) -> Result<Vec<Held>, OperateError> {
        let versions = self.versions::<T>().await?;
        Ok(versions.iter().map(|version| Held::of(version.line.version, &version.bundle)).collect())
    }

    /// Invites that somebody could still come with, and the root that each pins, as it was signed.
    async fn live_invites(&mut self) -> Result<Vec<LiveInvite>, OperateError> {
        let (now, mut live) = (clock::now(), Vec::new());
        let founders = self.known.founding.endpoint_fingerprint();
        for view in self.invites().await? {
            let left = match view.uses {
                Uses::Unlimited => true,
                Uses::Limited(uses) => view.spent < uses,
            };
            if view.revoked || !left || now >= view.expires_at {
                continue;
            }
            let InviteView { id, .. } = view;
            let not_as_told = || OperateError::NotAsTold { what: "invite", name: id.to_string() };
            let Answer::Document(Some(envelope)) = self.ask(Call::Invite { id }).await? else {
                return Err(not_as_told());
            };
            let signed = open_invite(&envelope, self.known.org(), &self.known.signer_sets());
            let signed = signed.ok().filter(|signed| signed.id == id).ok_or_else(not_as_told)?;
            live.push(LiveInvite {
                id,
                label: signed.label,
                kind: signed.kind,
                root: signed.root.unwrap_or(founders),
                expires_at: signed.expires_at,
            });
        }
        Ok(live)
    }

    /// Certificates of issuing keys, each told in its gateway's own voice.
    async fn issued(&mut self, domain: Domain) -> Result<Vec<(KeyId, CertificateDer<'static>)>, OperateError> {
        let Answer::Issuers { issuers } = self.ask(Call::Issuers {}).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        let (org, mandates) = (Some(self.known.org()), self.mandates());
        let open = |envelope: &Envelope| {
            let by = |mandate: &Mandate| {
                let told: Issuers = envelope.open_signed_by(org, &[mandate.voice]).ok()?;
                (told.gateway == mandate.gateway).then_some(told)
            };
            mandates.iter().find_map(by)
        };
        let told = issuers.iter().filter_map(open).filter_map(|told| {
            let der = match domain {
                Domain::Endpoint => told.endpoint,
                Domain::Identity => told.identity,
            };
            let certificate = CertificateDer::from(der.0);
            let key = certificate::read(&certificate).ok()?.key;
            Some((key, certificate))
        });
        Ok(told.collect())
    }
}
