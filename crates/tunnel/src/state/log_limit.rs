//! A rate limit for log lines: so much of one, so much of all, within a minute. The rest is told as a number.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

pub(crate) const WINDOW: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct LogLimit<K> {
    most: Most,
    since: Option<Instant>,
    said: u32,
    by: HashMap<K, Told>,
    /// Of those who are not told apart: there are too many.
    beyond: u64,
}

/// So many lines within a minute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub of_one: u32,
    pub of_all: u32,
}

#[derive(Debug, Default)]
struct Told {
    said: u32,
    more: u64,
}

impl<K: Clone + Eq + Hash + Ord> LogLimit<K> {
    pub(crate) fn new(most: Most) -> Self {
        Self { most, since: None, said: 0, by: HashMap::new(), beyond: 0 }
    }

    /// May it be told? To be asked after `roll_over`.
    pub(crate) fn passes(&mut self, key: &K, now: Instant) -> bool {
        self.since.get_or_insert(now);
        // As many are told apart as may say something.
        if self.said >= self.most.of_all && !self.by.contains_key(key) {
            self.beyond = self.beyond.saturating_add(1);
            return false;
        }
        let told = self.by.entry(key.clone()).or_default();
        if told.said >= self.most.of_one || self.said >= self.most.of_all {
            told.more = told.more.saturating_add(1);
            return false;
        }
        told.said += 1;
        self.said += 1;
        true
    }

    /// When a minute is over: how many were not told, by whom. From then on all may say something again.
    pub(crate) fn roll_over(&mut self, now: Instant) -> Vec<(Option<K>, u64)> {
        if self.since.is_none_or(|since| now.duration_since(since) < WINDOW) {
            return Vec::new();
        }
        let by = std::mem::take(&mut self.by);
        let beyond = std::mem::take(&mut self.beyond);
        (self.since, self.said) = (None, 0);
        let mut rest: Vec<_> = by.into_iter().map(|(key, told)| (Some(key), told.more)).collect();
        rest.push((None, beyond));
        rest.retain(|(_, more)| *more > 0);
        rest.sort();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_says_much_leaves_room_for_others_and_is_counted() {
        let (mut limit, now) = (LogLimit::new(Most { of_one: 3, of_all: 5 }), Instant::now());
        let mut passed = |key: &'static str, times: u32| (0..times).filter(|_| limit.passes(&key, now)).count();
        assert_eq!((passed("loud", 100), passed("low", 1), passed("late", 9), passed("new", 7)), (3, 1, 1, 0));
        assert_eq!(limit.roll_over(now), []);
        let rest = [(None, 7), (Some("late"), 8), (Some("loud"), 97)];
        assert_eq!(limit.roll_over(now + WINDOW), rest);
        assert!(limit.passes(&"new", now + WINDOW));
        assert_eq!(limit.roll_over(now + WINDOW * 3), []);
    }
}
