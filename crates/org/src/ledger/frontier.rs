//! The frontier (version vector): how far each gateway's chain is here.

use std::collections::BTreeMap;

use identity::envelope::Payload;
use identity::head::Recorded;
use identity::key::PublicKey;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::chain::{Entries, Written};

/// Of each voice the last place up to which no place is empty, and the entry there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frontier(pub BTreeMap<PublicKey, Recorded>);

impl Frontier {
    pub fn of(chains: &BTreeMap<PublicKey, Entries>) -> Self {
        Self(chains.iter().filter_map(|(voice, entries)| Some((*voice, end(entries)?))).collect())
    }

    pub fn place_of(&self, voice: &PublicKey) -> Option<Recorded> {
        self.0.get(voice).copied()
    }

    pub fn seq_of(&self, voice: &PublicKey) -> u64 {
        self.0.get(voice).map_or(0, |place| place.seq)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn covers_all(&self, other: &Self) -> bool {
        other.0.iter().all(|(voice, place)| self.seq_of(voice) >= place.seq)
    }

    /// Voices of which another entry is known there at the very place that is known here: one of them is of a branch.
    pub fn parted<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = PublicKey> + 'a {
        let parted = |(voice, place): (&PublicKey, &Recorded)| {
            let own = self.0.get(voice)?;
            (own.seq == place.seq && own.digest != place.digest).then_some(*voice)
        };
        other.0.iter().filter_map(parted)
    }

    /// Keeps the higher place of each voice.
    pub fn raise(&mut self, other: &Self) {
        for (voice, place) in &other.0 {
            let known = self.0.entry(*voice).or_insert(*place);
            if place.seq > known.seq {
                *known = *place;
            }
        }
    }

    /// How many entries that is.
    pub fn entries(&self) -> u64 {
        self.0.values().map(|place| place.seq).fold(0, u64::saturating_add)
    }
}

fn end(entries: &Entries) -> Option<Recorded> {
    let mut places: BTreeMap<u64, &Written> = BTreeMap::new();
    // No chain has a place before the first.
    for written in entries.values().filter(|written| written.seq > 0) {
        // Of two at one place the lower digest: they come in that order.
        places.entry(written.seq).or_insert(written);
    }
    let linked = (1..).zip(places.values()).take_while(|(seq, written)| written.seq == *seq);
    linked.last().map(|(_, written)| written.place())
}

/// A gateway's signed word about its own chain, handed to nodes and operators, who show it again later: a gateway
/// that was restored from an old copy is confronted with its own future.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tip {
    pub voice: PublicKey,
    pub place: Recorded,
    pub at: Timestamp,
}

impl Payload for Tip {
    const KIND: &'static str = "tip";
    const SCHEMA: u32 = 2;
}

#[cfg(test)]
mod tests {
    use identity::id::Digest;
    use identity::key::{EdKey, Sign as _};

    use super::*;
    use crate::ledger::chain::Act;

    fn voice() -> PublicKey {
        EdKey::from_seed(&[7; 32]).public()
    }

    fn at(seq: u64, digest: u8) -> Frontier {
        Frontier([(voice(), Recorded { seq, digest: Digest([digest; 32]) })].into())
    }

    #[test]
    fn it_reaches_as_far_as_no_place_is_empty() {
        let written = |seq: u64| {
            let (digest, at) = (Digest([u8::try_from(seq).unwrap(); 32]), Timestamp::from_unix(1));
            (digest, Written { digest, voice: voice(), seq, previous: None, at, act: Act::Take })
        };
        let reached = |places: &[u64]| {
            let entries: Entries = places.iter().map(|seq| written(*seq)).collect();
            Frontier::of(&[(voice(), entries)].into()).seq_of(&voice())
        };
        assert_eq!([reached(&[1, 2, 3]), reached(&[1, 2, 4]), reached(&[2, 3]), reached(&[0, 1, 2])], [3, 2, 0, 2]);
    }

    #[test]
    fn another_entry_at_the_same_place_is_of_a_branch() {
        assert_eq!(at(5, 1).parted(&at(5, 2)).collect::<Vec<_>>(), [voice()]);
        assert_eq!(at(5, 1).parted(&at(5, 1)).chain(at(4, 1).parted(&at(5, 2))).count(), 0);
        assert!(at(5, 1).covers_all(&at(5, 2)) && !at(4, 1).covers_all(&at(5, 1)));
    }
}
