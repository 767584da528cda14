//! One entry of the ledger: an action in its author's chain, with what the author had seen of the others.

use identity::bundle::Domain;
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::head::{Cut, Grace};
use identity::id::{Correlation, Digest, InviteId, OrgId};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::{Author, NodeName, Principal};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::frontier::{Frontier, Place};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub author: Author,
    /// The key that signs it; that this key is the author's is the fold's to check.
    pub key: PublicKey,
    pub epoch: u32,
    pub seq: u64,
    pub previous: Option<Digest>,
    pub seen: Frontier,
    pub at: Timestamp,
    pub correlation: Correlation,
    pub action: Action,
}

impl Payload for Entry {
    const KIND: &'static str = "entry";
    const SCHEMA: u32 = 1;
}

/// What happened. What it needs in order to count is in the envelope inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Action {
    #[serde(rename = "org.found")]
    OrgFound { founding: Envelope },
    #[serde(rename = "signers.install")]
    SignersInstall {
        /// A succession, or a recovery whose delay is over.
        signers: Envelope,
        /// The first head under the new set: without one, nobody could follow.
        head: Envelope,
    },
    /// Written by a gateway when it is shown a recovery. The delay counts from it for nobody but that gateway.
    #[serde(rename = "recovery.begin")]
    RecoveryBegin { recovery: Envelope },
    /// A new version of the roots of one domain, and the head that stages it. The first ones came before any head.
    #[serde(rename = "bootstrap_trust.publish")]
    TrustPublish {
        bundle: Envelope,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<Envelope>,
    },
    /// The staged version is the one to use; the former is in grace.
    #[serde(rename = "bootstrap_trust.activate")]
    TrustActivate { head: Envelope, turn: Turn },
    /// A new version with the former roots takes back the last step.
    #[serde(rename = "bootstrap_trust.rollback")]
    TrustRollback { bundle: Envelope, head: Envelope, turn: Turn },
    /// A version is trusted no more. If its keys were stolen, the bundle that replaces it comes along.
    #[serde(rename = "bootstrap_trust.retire")]
    TrustRetire {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bundle: Option<Envelope>,
        head: Envelope,
        turn: Turn,
    },
    #[serde(rename = "head.publish")]
    HeadPublish { head: Envelope, cause: Cause },
    /// Agents for the platforms of the org, and the head that names them.
    #[serde(rename = "release.publish")]
    ReleasePublish { release: Envelope, head: Envelope },
    #[serde(rename = "invite.create")]
    InviteCreate { invite: Envelope },
    /// After a restore: these invites are good again.
    #[serde(rename = "invite.confirm")]
    InviteConfirm { confirmation: Envelope },
    /// One signer alone, for a day at most.
    #[serde(rename = "node.suspend")]
    NodeSuspend { suspension: Envelope, name: NodeName },
    /// One signer lets a manifest stay that waits for an operator's word.
    #[serde(rename = "manifest.confirm")]
    ManifestConfirm { consent: Envelope, name: NodeName },
    /// A signer's yes or no to a claim.
    #[serde(rename = "node.approve")]
    NodeApprove { decision: Envelope, name: NodeName },
    /// A signer's yes to names, beforehand.
    #[serde(rename = "invite.approve")]
    InviteApprove { waiver: Envelope },
    #[serde(rename = "node.admit")]
    NodeAdmit { admission: Envelope },
    #[serde(rename = "node.join")]
    NodeJoin { node_key: Digest, name: NodeName },
    #[serde(rename = "node.leave")]
    NodeLeave { leave: Envelope, name: NodeName },
}

impl Action {
    /// The head that it brings, if it brings one.
    pub const fn head(&self) -> Option<&Envelope> {
        self.brings().0
    }

    /// The trust bundle that it brings, if it brings one.
    pub const fn bundle(&self) -> Option<&Envelope> {
        self.brings().1
    }

    /// A head and a trust bundle.
    const fn brings(&self) -> (Option<&Envelope>, Option<&Envelope>) {
        match self {
            Self::HeadPublish { head, .. }
            | Self::SignersInstall { head, .. }
            | Self::ReleasePublish { head, .. }
            | Self::TrustActivate { head, .. } => (Some(head), None),
            Self::TrustPublish { bundle, head } => (head.as_ref(), Some(bundle)),
            Self::TrustRollback { bundle, head, .. } => (Some(head), Some(bundle)),
            Self::TrustRetire { bundle, head, .. } => (Some(head), bundle.as_ref()),
            Self::OrgFound { .. }
            | Self::RecoveryBegin { .. }
            | Self::InviteCreate { .. }
            | Self::InviteConfirm { .. }
            | Self::NodeSuspend { .. }
            | Self::ManifestConfirm { .. }
            | Self::NodeApprove { .. }
            | Self::InviteApprove { .. }
            | Self::NodeAdmit { .. }
            | Self::NodeJoin { .. }
            | Self::NodeLeave { .. } => (None, None),
        }
    }
}

/// What happens to a version of the trusted roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    pub domain: Domain,
    pub version: u64,
    /// The version whose place it takes, or takes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
    /// From when until when the former is trusted beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Grace>,
    /// What would break by this, and was let break, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waived: Vec<String>,
}

/// Why a head was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Cause {
    Founding,
    Refresh,
    NodeRevoke {
        name: NodeName,
        node_key: Digest,
    },
    InviteRevoke {
        invite: InviteId,
    },
    MandateChange {
        gateway: NodeName,
    },
    /// A machine becomes a gateway.
    GatewayAdd {
        gateway: NodeName,
    },
    /// A gateway comes before the others.
    GatewayMove {
        gateway: NodeName,
    },
    /// A gateway is one no longer; what it writes beyond the cut is void.
    GatewayRemove {
        gateway: NodeName,
    },
    /// The ledger was restored from an older copy: the head begins a new epoch.
    Restore,
    /// The fleet was compiled anew.
    FleetPublish,
    /// What an earlier head said of the members is said again.
    FleetRollback {
        to: u64,
    },
    /// A user or service is to be believed no more, wherever it is.
    PrincipalRevoke {
        principal: Principal,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    Key(#[from] BadKey),
}

/// An entry whose own signature holds, with its digest and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedEntry {
    pub entry: Entry,
    pub digest: Digest,
    pub envelope: Envelope,
}

impl SignedEntry {
    pub fn open(org: OrgId, envelope: Envelope) -> Result<Self, BadEnvelope> {
        let named: Entry = envelope.peek(Some(org))?;
        let entry: Entry = envelope.open_signed_by(Some(org), &[named.key])?;
        Ok(Self { entry, digest: envelope.digest(), envelope })
    }

    /// The next entry of an author's chain, after everything in `frontier`, in the epoch that is in force (or that
    /// this very entry begins).
    pub fn write(
        org: OrgId,
        (frontier, epoch): (&Frontier, u32),
        (author, key): (Author, &dyn Sign),
        (at, correlation): (Timestamp, Correlation),
        action: Action,
    ) -> Result<Self, NotWritten> {
        let place = frontier.place_of(&author).copied();
        let entry = Entry {
            author,
            key: key.public(),
            epoch,
            seq: place.map_or(1, |place| place.seq.saturating_add(1)),
            previous: place.map(|place| place.digest),
            seen: frontier.clone(),
            at,
            correlation,
            action,
        };
        let envelope = Envelope::seal(Some(org), &entry)?.signed(key)?;
        Ok(Self { digest: envelope.digest(), entry, envelope })
    }

    pub fn cut(&self) -> Cut {
        Cut { author: self.entry.author.clone(), epoch: self.entry.epoch, seq: self.entry.seq }
    }

    pub fn place(&self) -> Place {
        Place { epoch: self.entry.epoch, seq: self.entry.seq, digest: self.digest }
    }

    /// Everything that lies before this entry.
    pub fn past(&self) -> Past<'_> {
        Past(&self.entry)
    }

    /// Grows along history; ties are broken by digest.
    pub fn height(&self) -> u64 {
        let mut inclusive = self.entry.seen.clone();
        inclusive.0.insert(self.entry.author.clone(), self.place());
        inclusive.height()
    }
}

/// The causal past of an entry: what its author had seen, and its own chain below it.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a>(&'a Entry);

impl Past<'_> {
    pub fn holds(&self, at: &Cut) -> bool {
        if at.author == self.0.author {
            // Chains keep counting through epochs; a higher place of an earlier epoch was given up.
            at.epoch <= self.0.epoch && at.seq < self.0.seq
        } else {
            self.0.seen.covers(at)
        }
    }
}
