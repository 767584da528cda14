//! One entry of a gateway's chain (a hash chain). What it says of its own past is for people: no rule reads it.

use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::head::Recorded;
use identity::id::{Correlation, Digest, OrgId};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Whose chain it is in; this key signs it.
    pub voice: PublicKey,
    pub seq: u64,
    pub previous: Option<Digest>,
    /// The head that its author went by.
    pub under: Under,
    pub at: Timestamp,
    pub correlation: Correlation,
    pub action: Action,
}

/// When an entry is written, and in the course of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub at: Timestamp,
    pub correlation: Correlation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Under {
    pub version: u64,
    pub digest: Digest,
}

impl Payload for Entry {
    const KIND: &'static str = "entry";
    const SCHEMA: u32 = 2;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// The entry is the admission: nodes keep it, peers are shown it.
    #[serde(rename = "node.admit")]
    NodeAdmit {
        claim: Envelope,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invite: Option<Envelope>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<Envelope>,
    },
    #[serde(rename = "node.join")]
    NodeJoin { node_key: Digest, name: NodeName },
    #[serde(rename = "node.leave")]
    NodeLeave { leave: Envelope, name: NodeName },
    /// Whatever operators signed and handed in here.
    #[serde(rename = "take")]
    Take { envelope: Envelope },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    Key(#[from] BadKey),
}

/// An entry that its voice signed, with its digest and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedEntry {
    pub entry: Entry,
    pub digest: Digest,
    pub envelope: Envelope,
}

impl SignedEntry {
    pub fn open(org: OrgId, envelope: Envelope) -> Result<Self, BadEnvelope> {
        let named: Entry = envelope.peek(Some(org))?;
        let entry: Entry = envelope.open_signed_by(Some(org), &[named.voice])?;
        Ok(Self { entry, digest: envelope.digest(), envelope })
    }

    /// From one's own disk: its signature was checked when it came.
    pub fn remember(org: OrgId, envelope: Envelope) -> Result<Self, BadEnvelope> {
        Ok(Self { entry: envelope.peek(Some(org))?, digest: envelope.digest(), envelope })
    }

    /// The next entry after the place `last`.
    pub fn write(
        org: OrgId,
        last: Option<Recorded>,
        voice: &dyn Sign,
        under: Under,
        Stamp { at, correlation }: Stamp,
        action: Action,
    ) -> Result<Self, NotWritten> {
        let seq = last.map_or(1, |last| last.seq.saturating_add(1));
        let previous = last.map(|last| last.digest);
        let entry = Entry { voice: voice.public(), seq, previous, under, at, correlation, action };
        let envelope = Envelope::seal(Some(org), &entry)?.signed(voice)?;
        Ok(Self { digest: envelope.digest(), entry, envelope })
    }

    /// Where it stands in its chain.
    pub const fn place(&self) -> Recorded {
        Recorded { seq: self.entry.seq, digest: self.digest }
    }
}
