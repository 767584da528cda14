//! A gateway's chain as far as it is here: what a head has settled, what links to that, and what does not; a fork
//! (equivocation) shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use identity::envelope::Envelope;
use identity::head::Recorded;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::time::Timestamp;

use crate::invite::admission::Leave;
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::evidence::{Evidence, Papers};

/// An entry as it is kept in memory, without its bytes: where it stands, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub digest: Digest,
    pub voice: PublicKey,
    pub seq: u64,
    pub previous: Option<Digest>,
    pub at: Timestamp,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Admit(Arc<Papers>),
    /// Digest of the node key.
    Join(Digest),
    /// The same, if the machine has signed it.
    Leave(Option<Digest>),
    Take,
}

impl Written {
    /// What it carries is read; whether it is signed and counts is asked later.
    pub fn read(org: OrgId, signed: &SignedEntry) -> Self {
        let act = match &signed.entry.action {
            Action::NodeAdmit { .. } => Act::Admit(Arc::new(Papers::of(org, signed))),
            Action::NodeJoin { node_key, .. } => Act::Join(*node_key),
            Action::NodeLeave { leave, .. } => Act::Leave(left(org, leave)),
            Action::Take { .. } => Act::Take,
        };
        Self::doing(signed, act)
    }

    pub const fn doing(signed: &SignedEntry, act: Act) -> Self {
        let entry = &signed.entry;
        let (voice, seq, previous, at) = (entry.voice, entry.seq, entry.previous, entry.at);
        Self { digest: signed.digest, voice, seq, previous, at, act }
    }

    pub const fn place(&self) -> Recorded {
        Recorded { seq: self.seq, digest: self.digest }
    }

    /// An admission, if a leaf names it, or its claim is signed by whoever must have signed it.
    pub fn evidence(&self, is_listed: bool) -> Option<&Evidence> {
        match &self.act {
            Act::Admit(papers) => papers.read(is_listed).ok(),
            Act::Join(_) | Act::Leave(_) | Act::Take => None,
        }
    }

    pub fn checked(&self) -> Option<&Evidence> {
        self.evidence(false)
    }
}

/// A machine's own word.
fn left(org: OrgId, leave: &Envelope) -> Option<Digest> {
    let named: Leave = leave.peek(Some(org)).ok()?;
    let leave: Leave = leave.open_signed_by(Some(org), &[named.node_key]).ok()?;
    Some(leave.node_key.digest())
}

/// Entries of one voice, by digest.
pub type Entries = BTreeMap<Digest, Written>;

#[derive(Debug, Default)]
pub struct Chain<'a> {
    /// Up to the record, the first entry first; its end is the record's own digest.
    pub recorded: Vec<&'a Written>,
    /// Everything up to the record is here.
    pub whole: bool,
    /// Linked to the record, in order, up to a fork.
    pub tail: Vec<&'a Written>,
    /// The first place that two entries claim, beyond the record.
    pub forked_at: Option<u64>,
}

impl<'a> Chain<'a> {
    pub fn of(entries: &'a Entries, record: Option<Recorded>) -> Self {
        let mut recorded = Vec::new();
        let mut at = record.and_then(|record| entries.get(&record.digest));
        while let Some(written) = at {
            recorded.push(written);
            at = written.previous.and_then(|before| entries.get(&before));
        }
        recorded.reverse();
        let settled = record.map_or(0, |record| record.seq);
        let whole = u64::try_from(recorded.len()).unwrap_or(u64::MAX) == settled;
        let mut chain = Self { recorded, whole, tail: Vec::new(), forked_at: None };
        chain.extend(entries, record);
        chain
    }

    fn extend(&mut self, entries: &'a Entries, record: Option<Recorded>) {
        let mut by_place: BTreeMap<u64, Vec<&'a Written>> = BTreeMap::new();
        let settled = record.map_or(0, |record| record.seq);
        for written in entries.values().filter(|written| written.seq > settled) {
            by_place.entry(written.seq).or_default().push(written);
        }
        let (mut seq, mut last) = (settled, record.map(|record| record.digest));
        while let Some(next) = seq.checked_add(1) {
            match by_place.get(&next).map(Vec::as_slice) {
                Some([only]) if only.previous == last => {
                    self.tail.push(only);
                    (seq, last) = (next, Some(only.digest));
                }
                Some([_, _, ..]) => {
                    self.forked_at = Some(next);
                    return;
                }
                Some(_) | None => return,
            }
        }
    }

    /// How far it is linked.
    pub fn end(&self, record: Option<Recorded>) -> Option<Recorded> {
        self.tail.last().map(|written| written.place()).or(record)
    }
}
