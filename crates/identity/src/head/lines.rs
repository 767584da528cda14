//! Lines about things of one kind, each with its end, if it has one.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// Lines of one kind, each with its end, if it has one. Written as a list: a thing alone is revoked for ever.
#[derive(Clone, PartialEq, Eq)]
pub struct Lines<K: Ord>(BTreeMap<K, Option<Timestamp>>);

impl<K: Ord> Default for Lines<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + fmt::Debug> fmt::Debug for Lines<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}

/// The later of two ends; none is the latest of all.
fn later(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    Some(one?.max(other?))
}

impl<K: Ord> Lines<K> {
    pub fn contains(&self, what: &K) -> bool {
        self.0.contains_key(what)
    }

    /// For ever.
    pub fn insert(&mut self, what: K) -> bool {
        self.0.insert(what, None).is_none()
    }

    /// Until then, or longer if it was longer already.
    pub fn insert_until(&mut self, what: K, until: Timestamp) {
        let end = self.0.get(&what).map_or(Some(until), |known| later(*known, Some(until)));
        self.0.insert(what, end);
    }

    /// Until when the line stands, if there is one; nothing inside is for ever.
    pub fn end_of(&self, what: &K) -> Option<Option<Timestamp>> {
        self.0.get(what).copied()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &K> {
        self.0.keys()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (&K, Option<Timestamp>)> {
        self.0.iter().map(|(what, end)| (what, *end))
    }

    /// False if there is a line for it already.
    pub(super) fn add(&mut self, what: K, end: Option<Timestamp>) -> bool {
        self.0.insert(what, end).is_none()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops lines that are over, but for those that something still needs.
    pub fn drop_over(&mut self, now: Timestamp, needed: impl Fn(&K) -> bool) {
        self.0.retain(|what, end| end.is_none_or(|end| now <= end) || needed(what));
    }

    /// What is here and not there, whatever the ends.
    pub fn beyond<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = &'a K> {
        self.0.keys().filter(|what| !older.contains(what))
    }

    /// Says all that `older` says, and as long, but for what was over when it was made.
    pub(super) fn keeps(&self, older: &Self, made_at: Timestamp) -> bool {
        let over = |end: &Option<Timestamp>| end.is_some_and(|end| end < made_at);
        let kept = |what: &K, end: &Option<Timestamp>| self.0.get(what).is_some_and(|own| later(*own, *end) == *own);
        older.0.iter().all(|(what, end)| over(end) || kept(what, end))
    }

    /// Says it all that `older` says, and as long.
    pub fn includes(&self, older: &Self) -> bool {
        older.0.iter().all(|(what, end)| self.0.get(what).is_some_and(|own| later(*own, *end) == *own))
    }
}

impl<K: Ord + Clone> Lines<K> {
    /// What `older` does not say, or not as long.
    pub(super) fn not_in(&self, older: &Self) -> Self {
        let said = |what: &K, end: Option<Timestamp>| older.0.get(what).is_some_and(|it| later(*it, end) == *it);
        let more = self.0.iter().filter(|(what, end)| !said(what, **end));
        Self(more.map(|(what, end)| (what.clone(), *end)).collect())
    }

    pub fn absorb(&mut self, other: &Self) {
        for (what, end) in &other.0 {
            let end = self.0.get(what).map_or(*end, |own| later(*own, *end));
            self.0.insert(what.clone(), end);
        }
    }
}

impl<K: Ord> Extend<K> for Lines<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, more: I) {
        self.0.extend(more.into_iter().map(|what| (what, None)));
    }
}

impl<K: Ord> FromIterator<K> for Lines<K> {
    fn from_iter<I: IntoIterator<Item = K>>(all: I) -> Self {
        Self(all.into_iter().map(|what| (what, None)).collect())
    }
}

impl<K: Ord, const N: usize> From<[K; N]> for Lines<K> {
    fn from(all: [K; N]) -> Self {
        all.into_iter().collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line<K> {
    ForEver(K),
    Until(K, Timestamp),
}

impl<K: Ord + Serialize> Serialize for Lines<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (what, end) in &self.0 {
            match end {
                None => list.serialize_element(&Line::ForEver(what))?,
                Some(end) => list.serialize_element(&Line::Until(what, *end))?,
            }
        }
        list.end()
    }
}

impl<'de, K: Ord + Deserialize<'de>> Deserialize<'de> for Lines<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut lines = BTreeMap::new();
        for line in Vec::<Line<K>>::deserialize(deserializer)? {
            let (what, end) = match line {
                Line::ForEver(what) => (what, None),
                Line::Until(what, end) => (what, Some(end)),
            };
            // A second line for one thing would be a second spelling of one head.
            if lines.insert(what, end).is_some() {
                return Err(D::Error::custom("a thing is revoked twice"));
            }
        }
        Ok(Self(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Digest;

    fn at(n: i64) -> Timestamp {
        Timestamp::from_unix(n)
    }

    fn lines(of: &[(u8, Option<i64>)]) -> Lines<Digest> {
        Lines(of.iter().map(|(n, end)| (Digest([*n; 32]), end.map(at))).collect())
    }

    #[test]
    fn what_two_say_together_is_the_longer_of_both() {
        let (one, other) = (lines(&[(1, Some(5)), (2, None)]), lines(&[(1, Some(9)), (2, Some(7)), (3, Some(1))]));
        let mut both = one.clone();
        both.absorb(&other);
        assert_eq!(both, lines(&[(1, Some(9)), (2, None), (3, Some(1))]));
        assert!(both.includes(&one) && both.includes(&other) && !one.includes(&other));
        assert!(!lines(&[(1, Some(4))]).includes(&lines(&[(1, Some(5))])), "it ends too early");
        assert!(!lines(&[(1, Some(4))]).includes(&lines(&[(1, None)])), "it ends at all");
    }

    #[test]
    fn a_line_is_dropped_only_when_it_is_over_and_nothing_needs_it() {
        let mut some = lines(&[(1, Some(5)), (2, None), (3, Some(5)), (4, Some(6))]);
        some.drop_over(at(6), |what| what.0[0] == 3);
        assert_eq!(some, lines(&[(2, None), (3, Some(5)), (4, Some(6))]));
    }

    #[test]
    fn lines_are_written_as_a_list_and_read_back() {
        let some = lines(&[(1, Some(5)), (2, None)]);
        let json = serde_json::to_string(&some).unwrap();
        assert!(json.starts_with("[["), "{json}");
        assert_eq!(serde_json::from_str::<Lines<Digest>>(&json).unwrap(), some);
        let twice = serde_json::to_string(&[Digest([1; 32]), Digest([1; 32])]).unwrap();
        assert!(serde_json::from_str::<Lines<Digest>>(&twice).is_err());
    }
}
