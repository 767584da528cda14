//! The words between an operator's tool and a gateway. They admit; what they change is signed inside.

use std::collections::BTreeMap;
use std::net::IpAddr;

use identity::bundle::Domain;
use identity::envelope::Envelope;
use identity::id::{Correlation, Digest, Serial};
use identity::key::PublicKey;
use identity::members::change::MapChange;
use identity::principal::{Address, NodeName, SignerName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::enroll::renew::Conflict;
use org::ledger::frontier::Frontier;
use org::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// A question with a current signer's signature over it and over the connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedCall {
    pub signer: SignerName,
    /// JSON of a `Call`, as signed.
    pub call: Bytes,
    pub signature: Bytes,
}

const CALL: &[u8] = b"freehold operator call v1\0";

impl SignedCall {
    /// What is signed: a call is good on one connection only.
    pub fn message(exporter: &[u8; 32], call: &[u8]) -> Vec<u8> {
        [CALL, &exporter[..], &Digest::of(call).0].concat()
    }

    /// Whether bytes that are to be signed are such a message. What call it is, its digest does not say.
    pub fn is_message(bytes: &[u8]) -> bool {
        bytes.len() == CALL.len() + 64 && bytes.starts_with(CALL)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    Survey {
        tip: Option<Envelope>,
    },
    /// What operators signed: all of it or none. What is here already is not written again.
    Take {
        objects: Vec<Envelope>,
        correlation: Correlation,
    },
    /// A page of what the gateway saw of machines, in the order of their node keys.
    Observed {
        after: Option<Digest>,
    },
    /// Begins a recovery.
    Recover {
        recovery: Envelope,
    },
    /// Entries that a replica with this frontier does not have.
    Beyond {
        frontier: Frontier,
    },
    /// Entries that the gateway lacks, as another replica has them.
    Hand {
        entries: Vec<Envelope>,
    },
    /// Which of these leaves and manifests the gateway does not have.
    Missing {
        digests: Vec<Digest>,
    },
    /// Leaves and manifests, by their bytes. They mean nothing until a head names a map of them.
    Stage {
        blobs: Vec<Bytes>,
    },
    /// A part of something that is too large for one call, from byte `from` on. With the last part it is put together.
    StagePart {
        digest: Digest,
        size: u64,
        from: u64,
        bytes: Bytes,
    },
    /// A part of a map: digests of its leaves, in whatever order, from place `from` on.
    StageMap {
        root: Digest,
        from: u64,
        leaves: Vec<Digest>,
    },
    /// A map by what it differs in from one that the gateway has. It computes the root, and refuses another.
    StageChange {
        root: Digest,
        base: Digest,
        change: MapChange,
    },
    /// What a map differs in from one that the asker has.
    MapChange {
        root: Digest,
        base: Digest,
    },
    /// A part of the map that has this root, from place `from` on.
    Map {
        root: Digest,
        from: u64,
    },
    /// Leaves and manifests, by their digests.
    Blobs {
        digests: Vec<Digest>,
    },
    /// Nodes' last reports that came after the one with this number.
    Reports {
        after: u64,
    },
    /// How this gateway stands with the others.
    Peers {},
    /// The issuing keys of this gateway, and of those that it has heard of.
    Issuers {},
    /// Draws a new spare key for a domain, once for each head: what waits for signatures under this head names it.
    Spare {
        domain: Domain,
    },
    /// Which of these files the gateway does not have, and how much of each it does. Those that it has stay for a while.
    FilesMissing {
        digests: Vec<Digest>,
    },
    /// A part of a file, from byte `from` on. With the last part it is put in place, if its digest is the one named.
    FilePart {
        digest: Digest,
        size: u64,
        from: u64,
        bytes: Bytes,
    },
    /// Files that nothing names, and that nobody handed in or asked about for so long, are removed.
    FilesSweep {
        unused_for: Seconds,
    },
    /// A page of machines that wait for a person, in the order of their node keys.
    Waiting {
        after: Option<Digest>,
    },
    /// Leaves what waits for more signatures for the other signers, in place of what this signer left of the same. It has
    /// no power here.
    Leave {
        objects: Vec<Envelope>,
    },
    /// A page of what signers left, after the one with this number.
    Inbox {
        after: u64,
    },
    /// Takes back what this signer left.
    Withdraw {
        digest: Digest,
    },
}

/// What something that waits for signatures is called by, whoever has signed: it covers every object in it.
pub fn waiting_digest(objects: &[Envelope]) -> Digest {
    let digests: Vec<[u8; 32]> = objects.iter().map(|object| object.digest().0).collect();
    Digest::of(&digests.concat())
}

/// As many digests, and about as many bytes, go into one call or answer.
pub const DIGESTS_PER_CALL: usize = 4_000;
pub const BYTES_PER_CALL: usize = 512 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlAnswer {
    Survey(Box<Survey>),
    Taken {},
    Recovering {
        due_at: Timestamp,
    },
    Observed {
        /// By the digests of their node keys.
        nodes: BTreeMap<Digest, Observed>,
        next: Option<Digest>,
    },
    Beyond {
        entries: Vec<Envelope>,
        /// There are more: ask again at once.
        more: bool,
    },
    Missing {
        digests: Vec<Digest>,
    },
    Staged {},
    Map {
        leaves: Vec<Digest>,
        next: Option<u64>,
    },
    /// Nothing if one of the two is not there, or too much lies between them.
    MapChange(Option<MapChange>),
    /// Those that are there and fit into one answer, in the order in which they were asked for.
    Blobs {
        blobs: Vec<Bytes>,
    },
    /// `org::gateway::IssuersNotice`, each as that gateway's voice signed it.
    Issuers {
        issuers: Vec<Envelope>,
    },
    /// This gateway's own, with the spare key that was drawn then.
    Spare {
        issuers: Envelope,
        drawn_at: Timestamp,
    },
    FilesMissing {
        missing: Vec<MissingFile>,
    },
    /// How much of the file is there now: what the next part begins with.
    FilePart {
        have: u64,
    },
    FilesSwept {
        files: u64,
        bytes: u64,
    },
    Reports {
        reports: Vec<ReportView>,
        /// The number to ask after next time.
        last: u64,
        more: bool,
    },
    Peers {
        peers: Vec<PeerView>,
    },
    Waiting {
        waiting: Vec<WaitingView>,
        next: Option<Digest>,
    },
    /// Nothing of what was left had any effect.
    Left {},
    Inbox {
        left: Vec<LeftView>,
        next: Option<u64>,
    },
}

/// What one signer left for the others. Only its dates are the gateway's word; whose signatures hold, the asker looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftView {
    pub objects: Vec<Envelope>,
    pub by: PublicKey,
    pub at: Timestamp,
    pub until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingFile {
    pub digest: Digest,
    /// What an upload that was cut off left.
    pub have: u64,
}

/// The last report of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportView {
    /// As the node key signed it.
    pub report: Envelope,
    pub received_at: Timestamp,
}

/// A machine that waits for a person. Only its address and its times are the gateway's word; the rest is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingView {
    /// As invite key and node key signed it.
    pub claim: Envelope,
    /// As the node key signed them.
    pub facts: Option<Envelope>,
    /// As the operators signed it.
    pub invite: Envelope,
    /// Who has said yes so far.
    pub approval: Option<Envelope>,
    pub source: IpAddr,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// What an operator's tool must know before it signs something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survey {
    pub frontier: Frontier,
    pub head: Envelope,
    pub signers: Vec<Envelope>,
    /// Absent if the gateway knows that it is behind: it can be looked at, and vouches for nothing.
    pub tip: Option<Envelope>,
    pub gateway: NodeName,
    pub addresses: Vec<Address>,
    /// Why the gateway issues nothing, if so.
    pub halt: Option<Refusal>,
    /// Recoveries that wait here, and when each takes effect at this gateway.
    pub recoveries: Vec<RecoveryView>,
    /// The report of the node that has the highest head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Envelope>,
    /// Voices of gateways whose chains fork, as far as it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<PublicKey>,
}

impl Survey {
    /// Does something hold it back, or is there a fork?
    pub fn is_odd(&self) -> bool {
        self.halt.is_some() || !self.forks.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryView {
    pub recovery: Envelope,
    pub due_at: Timestamp,
}

/// What a gateway saw of one machine: its word alone, on which nothing rests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    pub last_seen: Option<Timestamp>,
    /// Since when it is connected to this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online_since: Option<Timestamp>,
    pub svid_expires_at: Option<Timestamp>,
    pub svid_serial: Option<Serial>,
    /// Something that an operator should look at.
    pub alarm: Option<String>,
    /// What the alarm rests on.
    pub conflict: Option<Conflict>,
    /// Other machines that showed the bundle which this one joined with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<Reuse>,
}

/// Somebody showed a bundle that another machine had joined with. It was turned away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    pub at: Timestamp,
    pub source: IpAddr,
    /// The name that it wanted, and its key.
    pub name: NodeName,
    pub node_key: Digest,
    /// How often it tried.
    pub times: u32,
}

/// How one gateway stands with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerView {
    pub gateway: NodeName,
    /// When the two last spoke.
    pub last_exchange: Option<Timestamp>,
    /// Entries that the other has and this one not, and the other way round, as of then.
    pub behind: u64,
    pub ahead: u64,
    /// What went wrong last, if it did.
    pub problem: Option<String>,
}
