//! Invites that nobody can come with any more, because the endpoint root that they pin is trusted no more.

use std::collections::BTreeMap;

use identity::bundle::{Domain, Endpoint};
use identity::envelope::Envelope;
use identity::head::TrustState;
use identity::id::{Fingerprint, InviteId};
use identity::trust;
use org::invite::Invite;

use crate::session::desk::Desk;
use crate::session::{OperateError, Session};

/// What a code pins that finds no gateway any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranded {
    pub root: Fingerprint,
    /// The last version that had it; unknown if nobody has that bundle any more.
    pub version: Option<u64>,
}

impl<D: Desk> Session<D> {
    /// Those among these invites whose root is retired, in the signers' own words of what they pin.
    pub async fn stranded(&mut self, ids: &[InviteId]) -> Result<BTreeMap<InviteId, Stranded>, OperateError> {
        let lines = trust::of(&self.lines(), Domain::Endpoint);
        if ids.is_empty() || lines.iter().all(|line| line.state != TrustState::Retired) {
            return Ok(BTreeMap::new());
        }
        let versions = self.all_versions::<Endpoint>().await?;
        // What is trusted and cannot be read may have any root.
        if versions.missing.iter().any(|line| line.state.is_trusted()) {
            return Ok(BTreeMap::new());
        }
        let named = |root: Fingerprint, trusted: bool| {
            let mut fits = versions.here.iter().rev().filter(|version| version.line.state.is_trusted() == trusted);
            fits.find(|version| version.bundle.fingerprints().any(|it| it == root)).map(|version| version.line.version)
        };
        let founders = self.known.founding.endpoint_fingerprint();
        let state = self.fold_here().await?;
        let pinned = ids.iter().filter_map(|id| Some((*id, state.invite(*id)?.1.invite.root.unwrap_or(founders))));
        let pinned = pinned.filter(|(_, root)| named(*root, true).is_none());
        Ok(pinned.map(|(id, root)| (id, Stranded { root, version: named(root, false) })).collect())
    }

    /// An invite that the threshold of some signers of this org signed; whether it still counts is another question.
    pub(crate) fn open_invite(&self, envelope: &Envelope) -> Option<Invite> {
        let invite: Option<Invite> = self.known.signer_sets().iter().find_map(|set| set.open(envelope).ok());
        invite.filter(Invite::is_well_formed)
    }
}
