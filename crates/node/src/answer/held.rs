//! Entries that another gateway has and this one does not take yet: an install by recovery before the delay has run here, and
//! whatever follows from it.

use std::collections::BTreeMap;

use identity::head::Cut;
use identity::principal::Author;
use identity::time::{Seconds, Timestamp};
use org::entry::SignedEntry;
use org::frontier::Frontier;

/// Whoever hands over what waits may have made it up, authors and all: of more than this nothing is taken.
const MOST_AUTHORS: usize = 1_000;

/// How long something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Until(Timestamp),
    /// The signers who were to be replaced have signed their own successor.
    ForEver,
}

/// What waits, without the entries themselves: they are asked for again when it is time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Of each author the first that waits: whatever comes after it, or has seen it, waits as well.
    first: BTreeMap<Author, Cut>,
    last: Frontier,
    until: Option<Timestamp>,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.first.len() >= MOST_AUTHORS
    }

    /// Is it time to ask for all of it again?
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// How long until then.
    pub fn left(&self, now: Timestamp) -> Option<Seconds> {
        self.until.map(|until| until.since(now))
    }

    /// How far another gateway has no need to tell.
    pub const fn last(&self) -> &Frontier {
        &self.last
    }

    /// Does it follow from something that waits? What does not, waits for nobody.
    pub fn follows(&self, signed: &SignedEntry) -> bool {
        let past = signed.past();
        self.first.values().any(|cut| past.holds(cut) || *cut == signed.cut())
    }

    pub fn add(&mut self, signed: &SignedEntry) {
        let author = signed.entry.author.clone();
        self.first.entry(author.clone()).or_insert_with(|| signed.cut());
        self.last.raise(&Frontier([(author, signed.place())].into()));
    }

    /// One that others wait for.
    pub fn begin(&mut self, signed: &SignedEntry, wait: Wait) {
        self.add(signed);
        if let Wait::Until(until) = wait {
            self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
        }
    }
}

#[cfg(test)]
mod tests {
    use identity::id::{Correlation, Digest, OrgId};
    use identity::key::EdKey;
    use org::entry::Action;

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix(1_000_000);

    fn author(name: &str) -> Author {
        if name.starts_with("gw") {
            Author::Gateway(name.parse().unwrap())
        } else {
            Author::Signer(name.parse().unwrap())
        }
    }

    /// The next entry of a chain, after what its author says to have seen.
    fn entry(name: &str, own: Option<&SignedEntry>, seen: &[&SignedEntry]) -> SignedEntry {
        let seen = seen.iter().copied().chain(own).map(|it| (it.entry.author.clone(), it.place()));
        let action = Action::NodeJoin { node_key: Digest([1; 32]), name: "web-1".parse().unwrap() };
        let (key, about) = (EdKey::from_seed(&[7; 32]), (NOW, Correlation([0; 8])));
        let place = (&Frontier(seen.collect()), 1);
        SignedEntry::write(OrgId([0; 32]), place, (author(name), &key), about, action).unwrap()
    }

    #[test]
    fn what_follows_waits_and_what_does_not_is_held_up_by_nobody() {
        let before = entry("gw-1", None, &[]);
        let install = entry("eve", None, &[&before]);
        let mut held = Held::default();
        held.begin(&install, Wait::Until(NOW + Seconds::DAY));
        let after = entry("gw-1", Some(&before), &[&install]);
        let further = entry("gw-1", Some(&after), &[]);
        // It names only what saw the install, not the install.
        let indirect = entry("gw-2", None, &[&after]);
        for signed in [&install, &after, &further, &indirect] {
            assert!(held.follows(signed), "{}", signed.entry.author);
            held.add(signed);
        }
        let cancel = entry("ann", None, &[&before]);
        let free = entry("gw-3", None, &[&before, &cancel]);
        assert!(!held.follows(&cancel) && !held.follows(&free) && !held.follows(&before));
        let told: Vec<_> = held.last().0.iter().map(|(who, place)| (who.to_string(), place.seq)).collect();
        assert_eq!(told, [("signer/eve".to_owned(), 1), ("node/gw-1".to_owned(), 3), ("node/gw-2".to_owned(), 1)]);
    }

    #[test]
    fn authors_that_nobody_knows_fill_no_memory() {
        let install = entry("eve", None, &[]);
        let mut held = Held::default();
        held.begin(&install, Wait::Until(NOW));
        let (mut one, mut count) = (entry("zoe", None, &[&install]), 0);
        while !held.is_full() {
            one.entry.author = author(&format!("zoe-{count}"));
            held.add(&one);
            count += 1;
        }
        assert_eq!(count, MOST_AUTHORS - 1);
    }

    #[test]
    fn the_earliest_that_ends_says_when_to_ask_again_and_what_is_over_never_does() {
        let (one, other) = (entry("eve", None, &[]), entry("zoe", None, &[]));
        let mut held = Held::default();
        held.begin(&one, Wait::ForEver);
        assert!(!held.is_empty() && !held.is_over(NOW + Seconds::DAY.times(999)));
        assert_eq!(held.left(NOW), None);
        held.begin(&other, Wait::Until(NOW + Seconds::DAY));
        assert_eq!(held.left(NOW), Some(Seconds::DAY));
        assert!(!held.is_over(NOW) && held.is_over(NOW + Seconds::DAY));
    }
}
