//! What is known of an org, as it lies on disk; checked again whenever it is read.

use std::cmp::Ordering;

use identity::envelope::Envelope;
use identity::signers::SignersRef;
use identity::time::Timestamp;
use org::founding::Founding;
use org::ledger::replica::Replica;
use org::ledger::step::SignerStep;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{BadKnowledge, Known, in_order};

/// A step to other signers, and when it was first seen here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    pub step: Envelope,
    pub since: Timestamp,
}

/// The form of the file. Up to 2 is older than the first release.
const SCHEMA: u32 = 3;

/// As it is kept on disk; checked again whenever it is read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFile {
    pub schema: u32,
    pub founding: Envelope,
    /// What a person settled: a join code, a card, a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<SignersRef>,
    #[serde(default)]
    pub steps: Vec<Seen>,
    pub head: Envelope,
    /// Heads beside it, that took away what it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Envelope>,
    /// Older forms have these: they are told apart by their number, and refused.
    #[serde(default, skip_serializing)]
    pub signers: IgnoredAny,
    #[serde(default, skip_serializing)]
    pub sighted: IgnoredAny,
}

impl Known {
    pub fn to_file(&self) -> KnownFile {
        let seen = |step: &&SignerStep| {
            Some(Seen { step: step.envelope.clone(), since: *self.replica.sights.get(&step.digest)? })
        };
        KnownFile {
            schema: SCHEMA,
            founding: self.founding.envelope.clone(),
            floor: self.replica.basis.floor,
            steps: in_order(&self.replica).iter().filter_map(seen).collect(),
            head: self.head_envelope.clone(),
            left: self.beside().map(|record| record.envelope.clone()).collect(),
            signers: IgnoredAny,
            sighted: IgnoredAny,
        }
    }

    pub fn from_file(file: KnownFile) -> Result<Self, BadKnowledge> {
        match file.schema.cmp(&SCHEMA) {
            Ordering::Less => return Err(BadKnowledge::Older),
            Ordering::Greater => return Err(BadKnowledge::Newer),
            Ordering::Equal => {}
        }
        let founding = Founding::open(file.founding)?;
        let mut replica = Replica::new(&founding, file.floor);
        for seen in &file.steps {
            replica.remember(&seen.step)?;
            replica.sights.insert(seen.step.digest(), seen.since);
        }
        for head in std::iter::once(&file.head).chain(&file.left) {
            replica.remember(head)?;
        }
        Self::by(founding, replica, file.head.digest())
    }
}
