//! A report (status, heartbeat): what a node says of itself, signed by its node key: what it has taken in, and how its
//! trials went.

use identity::bundle::Domain;
use identity::envelope::Payload;
use identity::id::{Digest, Fingerprint};
use identity::key::PublicKey;
use identity::principal::{Address, NodeName, Principal};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest reason in a report.
pub(crate) const REASON: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub node: NodeName,
    pub node_key: PublicKey,
    pub at: Timestamp,
    /// The head that is on its disk: what that head revokes, this node refuses.
    pub head: Mark,
    /// The highest schema of manifests that this node reads.
    pub schema: u32,
    /// What the node is, of all that was offered.
    pub applied: Applied,
    /// Why the last offer of a gateway was not believed, if so.
    pub refused: Option<Refused>,
    /// Version of the agent.
    pub agent: String,
    /// Which roots it goes by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustTold>,
    /// The head that it followed before, if the one that it follows does not name it: perhaps operators went round it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Mark>,
    /// Where it found the gateway, if its mandate has no such address any more: none that it has led there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Address>,
    /// Programs that do not have their SVIDs as the manifest says, or were not told of a new one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramTold>,
}

/// The program of a user or service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramTold {
    pub principal: Principal,
    pub at: Timestamp,
    pub why: String,
}

/// Both domains, apart as everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustTold {
    pub endpoint: DomainTold,
    pub identity: DomainTold,
    /// The SVIDs here, and the roots that each leads to.
    pub svids: Vec<SvidTold>,
}

impl TrustTold {
    pub const fn of(&self, domain: Domain) -> &DomainTold {
        match domain {
            Domain::Endpoint => &self.endpoint,
            Domain::Identity => &self.identity,
        }
    }
}

/// How a node stands with the roots of one domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainTold {
    /// The newest version that it goes by, and the fingerprint of its roots.
    pub version: u64,
    pub fingerprint: Fingerprint,
    /// Every version that it goes by.
    pub versions: Vec<u64>,
    /// What is on trial, if something is.
    pub trial: Option<u64>,
    /// When it last took a change over.
    pub updated_at: Option<Timestamp>,
    /// What it did not take, or went back from, and why.
    pub refused: Option<Refused>,
}

impl DomainTold {
    /// Has it taken this version over? It goes by what is on trial too, and may go back from that.
    pub fn has(&self, version: u64) -> bool {
        self.trial != Some(version) && self.versions.contains(&version)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvidTold {
    pub principal: Principal,
    pub roots: Vec<Fingerprint>,
    pub not_after: Timestamp,
}

/// As many SVIDs, and versions, as a report tells of.
pub const TOLD: usize = 256;

impl Payload for Report {
    const KIND: &'static str = "report";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    pub version: u64,
    pub digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Applied {
    /// No manifest yet.
    Nothing,
    Settled {
        manifest: Digest,
    },
    OnTrial {
        manifest: Digest,
        previous: Option<Digest>,
        deadline: Timestamp,
        /// What is waited for, in words.
        waits: Vec<String>,
    },
    /// The node is what it was before.
    RolledBack {
        manifest: Digest,
        to: Option<Digest>,
        at: Timestamp,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub at: Timestamp,
    pub why: String,
}

impl Report {
    /// Bounded and plain, also if the node is hostile: people read it.
    pub fn is_plain(&self) -> bool {
        let plain = |text: &str| text.chars().count() <= REASON && !text.chars().any(steers);
        let applied = match &self.applied {
            Applied::Nothing | Applied::Settled { .. } => true,
            Applied::OnTrial { waits, .. } => waits.len() <= 32 && waits.iter().all(|wait| plain(wait)),
            Applied::RolledBack { why, .. } => plain(why),
        };
        let domain = |told: &DomainTold| {
            told.versions.len() <= TOLD && told.refused.as_ref().is_none_or(|refused| plain(&refused.why))
        };
        let trust = self.trust.as_ref().is_none_or(|trust| {
            let few = trust.svids.len() <= TOLD && trust.svids.iter().all(|svid| svid.roots.len() <= TOLD);
            few && domain(&trust.endpoint) && domain(&trust.identity)
        });
        let programs = self.programs.len() <= TOLD && self.programs.iter().all(|program| plain(&program.why));
        applied
            && trust
            && programs
            && plain(&self.agent)
            && self.refused.as_ref().is_none_or(|refused| plain(&refused.why))
    }
}

/// Makes words fit into a report.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if steers(c) { ' ' } else { c }).take(REASON).collect()
}

/// Moves a cursor, or turns the direction of writing.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
