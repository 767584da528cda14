//! The words between two replicas: gateways, and whoever observes. Entries carry their own authority; the rest is only observed.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::members::change::MapChange;
use identity::principal::Principal;
use identity::text::Bytes;
use identity::time::Seconds;
use org::enroll::renew::Issuance;
use org::ledger::frontier::Frontier;
use serde::{Deserialize, Serialize};

use crate::control::ReportView;
use crate::permit::Caller;

/// So many entries, and about so many bytes, go into one answer; as many observations.
pub const ENTRIES_PER_PAGE: usize = 500;
pub const BYTES_PER_PAGE: usize = 2 << 20;
/// At most so long a gateway keeps another waiting.
pub const LONGEST_EXCHANGE: Seconds = Seconds(25);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExchangeRequest {
    /// What the asker does not have yet; if that is nothing, wait for it.
    News(Have),
    /// A part of the members' map that has this root, from place `from` on.
    Map { root: Digest, from: u64 },
    /// What a map differs in from one that the asker has.
    MapChange { root: Digest, base: Digest },
    /// Leaves and manifests, by their digests.
    Blobs { digests: Vec<Digest> },
    /// A part of a file that a release or an invite names.
    File { digest: Digest, from: u64 },
    /// What is known of every gateway's issuing keys. A question of its own: whoever does not know it says so, and goes on.
    Issuers {},
}

impl ExchangeRequest {
    /// Who may ask this. An observer reads what is signed; what gateways tell each other of machines is theirs.
    pub const fn needs(&self) -> Caller {
        match self {
            Self::News(_) | Self::Map { .. } | Self::MapChange { .. } | Self::Blobs { .. } => Caller::Observer,
            Self::File { .. } | Self::Issuers {} => Caller::Gateway,
        }
    }
}

/// How far the asker is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Have {
    pub frontier: Frontier,
    /// The last observations of the asked one that it has, by the asked one's numbers.
    pub issued: u64,
    pub reports: u64,
    /// The highest word of the asked one's ledger that it was given.
    pub tip: Option<Envelope>,
    /// Chains that fork, as the asker has them: one that is held back by that hands out nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<Envelope>,
    pub wait: Seconds,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExchangeAnswer {
    News(Box<Delta>),
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
    File {
        /// Of the whole file; absent if it is not there.
        size: Option<u64>,
        bytes: Bytes,
    },
    /// `org::gateway::IssuersNotice`, each as that gateway's voice signed it.
    Issuers {
        issuers: Vec<Envelope>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    pub entries: Vec<Envelope>,
    /// Where chains fork, what stands there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<Envelope>,
    /// How far the asked one is, so that the asker knows how much is left.
    pub frontier: Frontier,
    pub issued: Vec<IssuedRow>,
    pub issued_until: u64,
    pub reports: Vec<ReportView>,
    pub reports_until: u64,
    /// There is more: ask again at once.
    pub more: bool,
    pub tip: Envelope,
}

/// An SVID that was made, or asked for in vain: what a clone is known by, at every gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuedRow {
    pub node_key: Digest,
    pub principal: Principal,
    pub row: Issuance,
    /// False if it was refused: the counter did not follow.
    pub made: bool,
}
