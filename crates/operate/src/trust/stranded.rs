//! Invites that nobody can come with any more, because the endpoint root that they pin is trusted no more.

use std::collections::BTreeMap;

use identity::bundle::{Domain, Endpoint};
use identity::head::TrustState;
use identity::id::{Fingerprint, InviteId};
use identity::trust;

use crate::session::{Result, Session};
use crate::trust::versions;

/// What a code pins that finds no gateway any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranded {
    pub root: Fingerprint,
    /// The last version that had it; unknown if nobody has that bundle any more.
    pub version: Option<u64>,
}

/// Those among these invites whose root is retired, in the signers' own words of what they pin.
pub async fn stranded(session: &mut Session, ids: &[InviteId]) -> Result<BTreeMap<InviteId, Stranded>> {
    let lines = trust::of(&session.lines(), Domain::Endpoint);
    if ids.is_empty() || lines.iter().all(|line| line.state != TrustState::Retired) {
        return Ok(BTreeMap::new());
    }
    let versions = versions::all::<Endpoint>(session).await?;
    // What is trusted and cannot be read may have any root.
    if versions.missing.iter().any(|line| line.state.is_trusted()) {
        return Ok(BTreeMap::new());
    }
    let named = |root: Fingerprint, trusted: bool| {
        let mut fits = versions.here.iter().rev().filter(|version| version.line.state.is_trusted() == trusted);
        fits.find(|version| version.bundle.fingerprints().any(|it| it == root)).map(|version| version.line.version)
    };
    let founders = session.known.founding.endpoint_fingerprint();
    let state = session.fold_here().await?;
    let pinned = ids.iter().filter_map(|id| Some((*id, state.invite(*id)?.1.invite.root.unwrap_or(founders))));
    let pinned = pinned.filter(|(_, root)| named(*root, true).is_none());
    Ok(pinned.map(|(id, root)| (id, Stranded { root, version: named(root, false) })).collect())
}
