//! Reads what a turn of trust could break: members, invites, issuing keys. What is signed is checked here.

use ground::clock;
use identity::bundle::{Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::head::Head;
use identity::id::KeyId;
use org::invite::Invite;
use org::state::{InviteRecord, State};
use pki_types::CertificateDer;

use super::{Held, LiveInvite, Scene};
use crate::invite::patterns;
use crate::session::desk::Desk;
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    /// Everything that a step in this domain could break.
    pub async fn scene(&mut self, domain: Domain) -> Result<Scene, OperateError> {
        let held = match domain {
            Domain::Endpoint => self.held::<Endpoint>().await?,
            Domain::Identity => self.held::<Identity>().await?,
        };
        let state = self.folded().await?;
        let members = self.stances().await?.all();
        let (mut invites, mut waiting) = (Vec::new(), Vec::new());
        // Who may be a member nobody pins beforehand.
        if domain == Domain::Endpoint {
            invites = self.live_invites(&state);
            let founders = self.known.founding.endpoint_fingerprint();
            let (machines, _) = if self.desk().is_alone() { Default::default() } else { self.waiting().await? };
            waiting = machines.into_iter().map(|it| (it.claim.name, it.invite.root.unwrap_or(founders))).collect();
        }
        let issued = self.issued(domain).await?;
        let now_so = Head { trust: self.lines(), ..self.known.head.head.clone() };
        let (alone, now) = (self.desk().is_alone(), clock::now());
        Ok(Scene { domain, head: now_so, held, members, invites, waiting, issued, alone, now })
    }

    async fn held<T: InDomain>(&mut self) -> Result<Vec<Held>, OperateError> {
        let versions = self.versions::<T>().await?;
        Ok(versions.iter().map(|version| Held::of(version.line.version, &version.bundle)).collect())
    }

    /// Invites that somebody could still come with, and the root that each pins, as the ledger has them.
    fn live_invites(&self, state: &State) -> Vec<LiveInvite> {
        let (now, founders) = (clock::now(), self.known.founding.endpoint_fingerprint());
        // A pattern of the fleet lets in whoever comes with any code.
        let handed = |invite: &Invite| patterns::named(invite.kind, &invite.label).is_none();
        let is_live = |record: &&InviteRecord| handed(&record.invite) && state.is_open(record, now);
        let live = state.invites.values().filter(is_live).map(|record| &record.invite);
        let told = live.map(|invite| LiveInvite {
            id: invite.id,
            label: invite.label.clone(),
            kind: invite.kind,
            root: invite.root.unwrap_or(founders),
            expires_at: invite.expires_at,
        });
        told.collect()
    }

    /// Certificates of issuing keys, each told in its gateway's own voice.
    async fn issued(&mut self, domain: Domain) -> Result<Vec<(KeyId, CertificateDer<'static>)>, OperateError> {
        let told = self.issuers().await?.into_values().filter_map(|told| {
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
