//! How far each author's chain is known.

use std::collections::BTreeMap;

use identity::envelope::Payload;
pub use identity::head::Place;
use identity::head::{Cut, Epoch};
use identity::principal::Author;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

const fn order(place: &Place) -> (u32, u64) {
    (place.epoch, place.seq)
}

/// Chains keep counting through epochs: no place is higher for a later epoch alone.
const fn reaches(known: &Place, epoch: u32, seq: u64) -> bool {
    known.epoch >= epoch && known.seq >= seq
}

/// The last known place of each author.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frontier(pub BTreeMap<Author, Place>);

impl Frontier {
    pub fn place_of(&self, author: &Author) -> Option<&Place> {
        self.0.get(author)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `self` knows the place and all before it.
    pub fn covers(&self, at: &Cut) -> bool {
        self.0.get(&at.author).is_some_and(|known| reaches(known, at.epoch, at.seq))
    }

    pub fn covers_all(&self, other: &Self) -> bool {
        let reached = |(author, place): (&Author, &Place)| {
            self.0.get(author).is_some_and(|known| reaches(known, place.epoch, place.seq))
        };
        other.0.iter().all(reached)
    }

    /// Where both are at one place of a chain, and another entry stands there: one of them is of a branch.
    pub fn parts_from(&self, other: &Self) -> bool {
        let parted = |(author, place): (&Author, &Place)| {
            let own = self.0.get(author);
            own.is_some_and(|own| (own.epoch, own.seq) == (place.epoch, place.seq) && own.digest != place.digest)
        };
        other.0.iter().any(parted)
    }

    /// Keeps the higher place of each author.
    pub fn raise(&mut self, other: &Self) {
        for (author, place) in &other.0 {
            match self.0.get(author) {
                Some(known) if order(known) >= order(place) => {}
                _ => {
                    self.0.insert(author.clone(), *place);
                }
            }
        }
    }

    /// What is left of it once an epoch has begun: places on branches that were given up become the ones kept.
    #[must_use]
    pub fn within(&self, epoch: &Epoch) -> Self {
        let keep = |(author, place): (&Author, &Place)| {
            let kept = epoch.after.get(author);
            // Two copies of one folder may have written another entry at the very place that was kept.
            let other = place.epoch < epoch.number
                && kept.is_some_and(|kept| kept.seq == place.seq && kept.digest != place.digest);
            let gone = other || epoch.gave_up(author, place.epoch, place.seq);
            let place = if gone { *epoch.after.get(author)? } else { *place };
            Some((author.clone(), place))
        };
        Self(self.0.iter().filter_map(keep).collect())
    }

    pub fn cuts(&self) -> Vec<Cut> {
        let cut =
            |(author, place): (&Author, &Place)| Cut { author: author.clone(), epoch: place.epoch, seq: place.seq };
        self.0.iter().map(cut).collect()
    }

    /// Grows along every step of history: if A is in B's past, A's height is the smaller one.
    pub fn height(&self) -> u64 {
        self.0.values().fold(0, |sum, place| sum.saturating_add(place.seq).saturating_add(u64::from(place.epoch) << 40))
    }
}

/// A gateway's signed word about its own chain, handed to nodes and operators, who show it again later: a gateway
/// that was restored from an old copy is confronted with its own future.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tip {
    pub author: Author,
    pub place: Place,
    pub at: Timestamp,
}

impl Payload for Tip {
    const KIND: &'static str = "tip";
    const SCHEMA: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::id::Digest;

    #[test]
    fn a_later_epoch_makes_no_lower_place_a_higher_one() {
        let author = Author::Signer("ann".parse().unwrap());
        let at = |epoch, seq| Frontier([(author.clone(), Place { epoch, seq, digest: Digest([0; 32]) })].into());
        // Whoever saw fifty entries is not content with two, whatever epoch a gateway says they are of.
        assert!(!at(9, 2).covers_all(&at(1, 50)));
        assert!(!at(9, 2).covers(&Cut { author: author.clone(), epoch: 1, seq: 50 }));
        assert!(!at(1, 50).covers_all(&at(2, 2)));
        assert!(at(2, 51).covers_all(&at(1, 50)));
    }

    #[test]
    fn what_another_copy_wrote_at_the_place_that_was_kept_was_given_up() {
        let author = Author::Gateway("quay".parse().unwrap());
        let at = |seq, digest: u8| {
            Frontier([(author.clone(), Place { epoch: 1, seq, digest: Digest([digest; 32]) })].into())
        };
        let epoch = Epoch { number: 2, after: at(5, 1).0 };
        assert_eq!(at(5, 2).within(&epoch), at(5, 1), "the other branch");
        assert_eq!(at(7, 2).within(&epoch), at(5, 1), "beyond what was kept");
        assert_eq!(at(4, 3).within(&epoch), at(4, 3), "before it");
        assert!(at(5, 2).parts_from(&at(5, 1)) && !at(5, 1).parts_from(&at(5, 1)) && !at(4, 2).parts_from(&at(5, 1)));
    }
}
