//! A gateway's chain as far as it is here: what a head has settled, what links to that, and what does not.

use std::collections::BTreeMap;

use identity::head::Recorded;
use identity::id::Digest;

use crate::ledger::entry::SignedEntry;

/// Entries of one voice, by digest.
pub type Entries = BTreeMap<Digest, SignedEntry>;

#[derive(Debug, Default)]
pub struct Chain<'a> {
    /// Up to the record, the first entry first; its end is the record's own digest.
    pub recorded: Vec<&'a SignedEntry>,
    /// Everything up to the record is here.
    pub whole: bool,
    /// Linked to the record, in order, up to a fork.
    pub tail: Vec<&'a SignedEntry>,
    /// The first place that two entries claim, beyond the record.
    pub forked_at: Option<u64>,
}

impl<'a> Chain<'a> {
    pub fn of(entries: &'a Entries, record: Option<Recorded>) -> Self {
        let mut recorded = Vec::new();
        let mut at = record.and_then(|record| entries.get(&record.digest));
        while let Some(signed) = at {
            recorded.push(signed);
            at = signed.entry.previous.and_then(|before| entries.get(&before));
        }
        recorded.reverse();
        let settled = record.map_or(0, |record| record.seq);
        let whole = u64::try_from(recorded.len()).unwrap_or(u64::MAX) == settled;
        let mut chain = Self { recorded, whole, tail: Vec::new(), forked_at: None };
        chain.extend(entries, record);
        chain
    }

    fn extend(&mut self, entries: &'a Entries, record: Option<Recorded>) {
        let mut by_place: BTreeMap<u64, Vec<&'a SignedEntry>> = BTreeMap::new();
        let settled = record.map_or(0, |record| record.seq);
        for signed in entries.values().filter(|signed| signed.entry.seq > settled) {
            by_place.entry(signed.entry.seq).or_default().push(signed);
        }
        let (mut seq, mut last) = (settled, record.map(|record| record.digest));
        while let Some(next) = seq.checked_add(1) {
            match by_place.get(&next).map(Vec::as_slice) {
                Some([only]) if only.entry.previous == last => {
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
        let last = self.tail.last().map(|signed| Recorded { seq: signed.entry.seq, digest: signed.digest });
        last.or(record)
    }
}
