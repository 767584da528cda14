//! How a published head fares: what each node has made of it, judged from its own signed reports.

pub mod follow;

use std::collections::BTreeMap;

use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, NodeLeaf};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use manifest::stored::Manifest;
use org::report::{Applied, Report};
use serde::Serialize;

use crate::replica::published::nodes;
use crate::session::reports::Reports;

/// A node that was not seen for so long before a publish is not waited for.
const ABSENT: Seconds = Seconds(180);
/// So long a node that was seen lately may take to hear of a new head.
const TO_HEAR: Seconds = Seconds(60);
/// Clocks and networks are allowed this much after a deadline.
const MARGIN: Seconds = Seconds(15);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum NodeFate {
    /// It has not said that it has the head.
    NotReached,
    /// Seen so long ago that it is not waited for.
    Offline,
    /// It has the head, and is about to become what it says.
    Reached,
    OnTrial {
        deadline: Timestamp,
        waits: Vec<String>,
    },
    Confirmed,
    RolledBack {
        why: String,
    },
    /// It does not believe the head, or what came with it.
    Refused {
        why: String,
    },
}

impl NodeFate {
    /// Nothing more is to be expected.
    pub const fn is_settled(&self) -> bool {
        matches!(self, Self::Confirmed | Self::RolledBack { .. } | Self::Refused { .. })
    }

    /// It is not what it should be, by its own word.
    pub const fn is_bad(&self) -> bool {
        matches!(self, Self::RolledBack { .. } | Self::Refused { .. })
    }
}

/// The key of a node, and the manifest that it is to have; none if it is to have nothing.
#[derive(Debug, Clone, Copy)]
struct Expected {
    key: Digest,
    manifest: Option<Digest>,
}

/// What is watched, and what was heard of it.
#[derive(Debug)]
pub struct Watch {
    head: u64,
    since: Timestamp,
    /// No manifest gives a trial more time than this, whatever a node says of its deadline.
    longest_trial: Seconds,
    leaves: BTreeMap<NodeName, Expected>,
    last_seen: BTreeMap<NodeName, Timestamp>,
    reports: Reports,
}

impl Watch {
    pub fn new(
        head: u64,
        since: Timestamp,
        leaves: &[Leaf],
        manifests: &BTreeMap<Digest, Vec<u8>>,
        last_seen: BTreeMap<NodeName, Timestamp>,
    ) -> Self {
        let read = manifests.iter().filter_map(|(digest, bytes)| Manifest::read(bytes, *digest).ok());
        let longest_trial = read.map(|manifest| manifest.runs.apply.deadline).max().unwrap_or(Seconds(0));
        let classes = ClassLeaves::of(leaves);
        let expected = |leaf: &NodeLeaf| Expected { key: leaf.node_key, manifest: classes.manifest_of(leaf) };
        let leaves = nodes(leaves).map(|leaf| (leaf.name.clone(), expected(leaf))).collect();
        Self { head, since, longest_trial, leaves, last_seen, reports: Reports::new() }
    }

    /// Of a key that no leaf names nothing is believed, whatever name it uses.
    pub fn hear(&mut self, reports: Reports) {
        self.reports.extend(reports);
    }

    pub fn fates(&self, now: Timestamp) -> BTreeMap<&NodeName, NodeFate> {
        self.leaves.iter().map(|(name, leaf)| (name, self.fate(name, *leaf, now))).collect()
    }

    fn fate(&self, name: &NodeName, expected: Expected, now: Timestamp) -> NodeFate {
        match self.reports.get(&expected.key).filter(|heard| heard.report.node == *name) {
            Some(heard) => match judge(&heard.report, self.head, self.since, expected.manifest) {
                NodeFate::NotReached => self.unreached(name, Some(heard.received_at), now),
                told => told,
            },
            None => self.unreached(name, None, now),
        }
    }

    fn unreached(&self, name: &NodeName, heard_at: Option<Timestamp>, now: Timestamp) -> NodeFate {
        let seen = self.last_seen.get(name).copied().max(heard_at);
        let was_there = seen.is_some_and(|seen| seen + ABSENT >= self.since);
        if was_there && now < self.since + TO_HEAR { NodeFate::NotReached } else { NodeFate::Offline }
    }

    /// Nothing more is to be waited for: everybody has settled, is offline, or is long past its deadline.
    pub fn is_over(&self, now: Timestamp) -> bool {
        let to_take_in = self.since + TO_HEAR.times(2);
        let last_deadline = to_take_in + self.longest_trial;
        self.fates(now).values().all(|fate| match fate {
            NodeFate::Offline => true,
            // One that has the head says soon what it makes of it.
            NodeFate::Reached => now >= to_take_in,
            NodeFate::OnTrial { deadline, .. } => now >= last_deadline.min(*deadline) + MARGIN,
            settled => settled.is_settled(),
        })
    }
}

/// What a node makes of a head in which its manifest is this one, or in which it is to have nothing.
fn judge(report: &Report, head: u64, since: Timestamp, wanted: Option<Digest>) -> NodeFate {
    let refused = report.refused.as_ref().filter(|refused| refused.at >= since);
    let refused = refused.map(|refused| NodeFate::Refused { why: refused.why.clone() });
    if report.head.version < head {
        return refused.unwrap_or(NodeFate::NotReached);
    }
    // One that never had anything stays so.
    if wanted.is_none() && report.applied == Applied::Nothing {
        return refused.unwrap_or(NodeFate::Confirmed);
    }
    let wanted = wanted.unwrap_or_else(|| Manifest::nothing().digest());
    // One gateway may have lied, and another told the truth since: what became of it says more.
    match &report.applied {
        Applied::Settled { manifest } if *manifest == wanted => NodeFate::Confirmed,
        Applied::OnTrial { manifest, deadline, waits, .. } if *manifest == wanted => {
            NodeFate::OnTrial { deadline: *deadline, waits: waits.clone() }
        }
        Applied::RolledBack { manifest, why, .. } if *manifest == wanted => NodeFate::RolledBack { why: why.clone() },
        // About an earlier manifest, or nothing yet.
        Applied::Nothing | Applied::Settled { .. } | Applied::OnTrial { .. } | Applied::RolledBack { .. } => {
            refused.unwrap_or(NodeFate::Reached)
        }
    }
}

/// Who has taken in a head, by signed receipts, and who has not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Receipts {
    pub confirmed: Vec<NodeName>,
    pub waiting: Vec<NodeName>,
}

impl Receipts {
    /// A node refuses what the head revokes as soon as it has it on its disk.
    pub fn of(head: u64, members: impl IntoIterator<Item = (NodeName, Digest)>, reports: &Reports) -> Self {
        let mut receipts = Self::default();
        for (name, key) in members {
            let report = reports.get(&key).map(|heard| &heard.report).filter(|report| report.node == name);
            let has = report.is_some_and(|report| report.head.version >= head);
            if has { receipts.confirmed.push(name) } else { receipts.waiting.push(name) }
        }
        receipts
    }

    /// At the end, when nobody waits any longer.
    pub fn in_words(&self, head: u64) -> String {
        let all = self.confirmed.len() + self.waiting.len();
        let told = format!("refused at the gateways; confirmed by {} of {all} nodes", self.confirmed.len());
        match self.waiting.as_slice() {
            [] => told,
            waiting @ [first, ..] => format!(
                "{told}, not yet by {}\nno longer waited for: each learns of it from the first gateway or node that it \
                 meets; see whether it reports head {head}: freehold node show {first}",
                listed(waiting)
            ),
        }
    }
}

/// A few names, and how many more.
pub fn listed(names: &[NodeName]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
