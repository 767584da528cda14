//! Reads what a turn of trust could break: members, invites, issuing keys. What is signed is checked here.

use ground::clock;
use identity::bundle::{Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::head::Head;
use identity::id::{Fingerprint, KeyId};
use identity::time::Timestamp;
use org::state::State;
use pki_types::CertificateDer;

use super::{LiveInvite, Scene, TrustVersion};
use crate::node::waiting;
use crate::session::{Result, Session};
use crate::trust::issuers::Told;
use crate::trust::{adopted, issuers, versions};

/// Everything that a step in this domain could break.
pub async fn scene(session: &mut Session, domain: Domain) -> Result<Scene> {
    let held = match domain {
        Domain::Endpoint => held::<Endpoint>(session).await?,
        Domain::Identity => held::<Identity>(session).await?,
    };
    let state = session.folded().await?;
    let members = adopted::stances(session).await?.all();
    let (alone, now) = (session.is_alone(), clock::now());
    let (mut invites, mut waits) = (Vec::new(), Vec::new());
    // Who may be a member nobody pins beforehand.
    if domain == Domain::Endpoint {
        let founders = session.known.founding.endpoint_fingerprint();
        invites = live_invites(&state, founders, now);
        let (machines, _) = if alone { Default::default() } else { waiting::all(session).await? };
        waits = machines.into_iter().map(|it| (it.claim.name, it.invite.root.unwrap_or(founders))).collect();
    }
    let issued = issued(&issuers::told(session).await?, domain);
    let now_so = Head { trust: session.lines(), ..session.head().clone() };
    Ok(Scene { domain, head: now_so, held, members, invites, waiting: waits, issued, alone, now })
}

async fn held<T: InDomain>(session: &mut Session) -> Result<Vec<TrustVersion>> {
    let versions = versions::all::<T>(session).await?.trusted()?;
    Ok(versions.iter().map(|version| TrustVersion::of(version.line.version, &version.bundle)).collect())
}

/// Invites that somebody could still come with, and the root that each pins, as the ledger has them.
fn live_invites(state: &State, founders: Fingerprint, now: Timestamp) -> Vec<LiveInvite> {
    let open = state.invites.values().filter(|record| state.is_open(record, now)).map(|record| &record.invite);
    // A pattern of the fleet lets in whoever comes with any code.
    let live = open.filter(|invite| invite.pattern().is_none());
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
fn issued(told: &Told, domain: Domain) -> Vec<(KeyId, CertificateDer<'static>)> {
    let certificates = told.values().map(|told| CertificateDer::from(told.certificate(domain).0.clone()));
    certificates.filter_map(|certificate| Some((certificate::read(&certificate).ok()?.key, certificate))).collect()
}
