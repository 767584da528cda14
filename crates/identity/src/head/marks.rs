//! Node keys that were taken back. Over the years they are many, and every machine is sent them all: each is written as short as
//! is safe, and they end by whole days, so that those of one day are written together.

use std::fmt;

use serde::de::Error as _;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::head::lines::Lines;
use crate::id::Digest;
use crate::text::Bytes;
use crate::time::{Seconds, Timestamp};

/// How much of a digest is written. Nobody gets a key back by another that begins alike; and whoever wanted somebody else's
/// to be taken back along with one of their own would have to try 2^96.
const LENGTH: usize = 12;

/// What stands in a head for the digest of a node key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyMark([u8; LENGTH]);

impl KeyMark {
    pub fn of(key: &Digest) -> Self {
        let mut mark = [0; LENGTH];
        mark.iter_mut().zip(key.0).for_each(|(to, from)| *to = from);
        Self(mark)
    }
}

impl fmt::Display for KeyMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyMark({self})")
    }
}

/// Lines of node keys, by the digests of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyLines(Lines<KeyMark>);

impl KeyLines {
    pub fn contains(&self, key: &Digest) -> bool {
        self.0.contains(&KeyMark::of(key))
    }

    /// For ever.
    pub fn insert(&mut self, key: Digest) -> bool {
        self.0.insert(KeyMark::of(&key))
    }

    /// Until the end of that day, or longer if it was longer already.
    pub fn insert_until(&mut self, key: Digest, until: Timestamp) {
        self.0.insert_until(KeyMark::of(&key), end_of_day(until));
    }

    /// Until when the line stands, if there is one; nothing inside is for ever.
    pub fn end_of(&self, key: &Digest) -> Option<Option<Timestamp>> {
        self.0.end_of(&KeyMark::of(key))
    }

    pub fn marks(&self) -> impl ExactSizeIterator<Item = &KeyMark> {
        self.0.iter()
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
    pub fn drop_over(&mut self, now: Timestamp, needed: impl Fn(&KeyMark) -> bool) {
        self.0.drop_over(now, needed);
    }

    /// What is here and not there, whatever the ends.
    pub fn beyond<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = &'a KeyMark> {
        self.0.beyond(&older.0)
    }

    pub fn includes(&self, older: &Self) -> bool {
        self.0.includes(&older.0)
    }

    pub(super) fn keeps(&self, older: &Self, made_at: Timestamp) -> bool {
        self.0.keeps(&older.0, made_at)
    }

    pub(super) fn not_in(&self, older: &Self) -> Self {
        Self(self.0.not_in(&older.0))
    }

    pub fn absorb(&mut self, other: &Self) {
        self.0.absorb(&other.0);
    }
}

impl Extend<Digest> for KeyLines {
    fn extend<I: IntoIterator<Item = Digest>>(&mut self, more: I) {
        self.0.extend(more.into_iter().map(|key| KeyMark::of(&key)));
    }
}

impl FromIterator<Digest> for KeyLines {
    fn from_iter<I: IntoIterator<Item = Digest>>(all: I) -> Self {
        Self(all.into_iter().map(|key| KeyMark::of(&key)).collect())
    }
}

impl<const N: usize> From<[Digest; N]> for KeyLines {
    fn from(all: [Digest; N]) -> Self {
        all.into_iter().collect()
    }
}

const DAY: i64 = Seconds::DAY.0.cast_signed();

fn end_of_day(at: Timestamp) -> Timestamp {
    let rest = at.unix().rem_euclid(DAY);
    Timestamp::from_unix(if rest == 0 { at.unix() } else { at.unix().saturating_add(DAY - rest) })
}

/// A list of `[day, marks]`: days since 1970, without one first, then rising; the marks of a day in one string, rising.
impl Serialize for KeyLines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut days = std::collections::BTreeMap::<Option<i64>, Vec<u8>>::new();
        for (mark, end) in self.0.lines() {
            days.entry(end.map(|end| end.unix().div_euclid(DAY))).or_default().extend(mark.0);
        }
        let mut list = serializer.serialize_seq(Some(days.len()))?;
        for (day, marks) in days {
            list.serialize_element(&(day, Bytes(marks)))?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for KeyLines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let not = |why: &str| Err(D::Error::custom(why));
        let mut lines = Lines::default();
        let mut before: Option<Option<i64>> = None;
        for (day, marks) in Vec::<(Option<i64>, Bytes)>::deserialize(deserializer)? {
            // One spelling for one head.
            if before.is_some_and(|before| before >= day) {
                return not("the days of revoked keys do not rise");
            }
            before = Some(day);
            let end = day.map(|day| day.checked_mul(DAY).map(Timestamp::from_unix));
            if end == Some(None) || marks.0.is_empty() {
                return not("a day of revoked keys is none");
            }
            let (marks, rest) = marks.0.as_chunks::<LENGTH>();
            if !rest.is_empty() || !marks.is_sorted_by(|one, next| one < next) {
                return not("revoked keys are cut off, or do not rise");
            }
            for mark in marks {
                if !lines.add(KeyMark(*mark), end.flatten()) {
                    return not("a key is revoked twice");
                }
            }
        }
        Ok(Self(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest([n; 32])
    }

    #[test]
    fn lines_are_written_by_days_and_read_back() {
        let mut some = KeyLines::from([digest(9), digest(1)]);
        some.insert_until(digest(3), Timestamp::from_unix(DAY + 1));
        some.insert_until(digest(2), Timestamp::from_unix(2 * DAY));
        some.insert_until(digest(4), Timestamp::from_unix(2 * DAY + 1));
        let json = serde_json::to_string(&some).unwrap();
        assert_eq!(serde_json::from_str::<Vec<(Option<i64>, String)>>(&json).unwrap().len(), 3, "{json}");
        assert_eq!(serde_json::from_str::<KeyLines>(&json).unwrap(), some);
        assert_eq!(some.end_of(&digest(3)), Some(Some(Timestamp::from_unix(2 * DAY))), "to the end of the day");
        assert_eq!((some.end_of(&digest(1)), some.end_of(&digest(7))), (Some(None), None));
    }

    #[test]
    fn there_is_one_spelling_and_nothing_else_is_read() {
        let bytes = |of: &[u8]| Bytes(of.iter().flat_map(|n| [*n; LENGTH]).collect());
        let read = |days: &[(Option<i64>, Bytes)]| {
            serde_json::from_str::<KeyLines>(&serde_json::to_string(days).unwrap()).is_ok()
        };
        assert!(read(&[]) && read(&[(None, bytes(&[1, 2])), (Some(3), bytes(&[4]))]));
        let whole = bytes(&[1, 2]);
        let cut = Bytes(whole.0.get(1..).unwrap().to_vec());
        let wrong = [
            vec![(None, bytes(&[]))],
            vec![(None, bytes(&[2, 1]))],
            vec![(None, bytes(&[1, 1]))],
            vec![(None, cut)],
            vec![(Some(3), bytes(&[1])), (None, bytes(&[2]))],
            vec![(Some(3), bytes(&[1])), (Some(3), bytes(&[2]))],
            vec![(Some(3), bytes(&[1])), (Some(4), bytes(&[1]))],
            vec![(Some(i64::MAX), bytes(&[1]))],
        ];
        for (nth, days) in wrong.iter().enumerate() {
            assert!(!read(days), "{nth}");
        }
    }

    #[test]
    fn a_line_is_sixteen_characters_long() {
        let many: KeyLines = (0..1_000_u32)
            .map(|n| {
                let mut digest = [0; 32];
                digest.iter_mut().zip(n.to_be_bytes()).for_each(|(to, from)| *to = from);
                Digest(digest)
            })
            .collect();
        assert_eq!(serde_json::to_string(&many).unwrap().len(), 16_000 + "[[null,\"\"]]".len());
    }
}
