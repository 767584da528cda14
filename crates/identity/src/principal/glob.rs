//! A pattern for names: letters, digits, `-`, and `*` for any run of them.

use std::fmt;
use std::str::FromStr;

use crate::principal::NodeName;
use crate::text_form;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameGlob(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name pattern: use a-z, 0-9, `-` and `*`")]
pub struct BadGlob(String);

/// How many steps may still be taken. To compare two patterns of many stars takes thousands.
#[derive(Debug)]
pub struct Effort(u32);

/// Whoever wrote these patterns can say the same with fewer stars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this takes too long")]
pub struct TooHard;

impl Effort {
    pub const fn of(steps: u32) -> Self {
        Self(steps)
    }

    pub fn step(&mut self) -> Result<(), TooHard> {
        self.0 = self.0.checked_sub(1).ok_or(TooHard)?;
        Ok(())
    }

    pub const fn left(&self) -> u32 {
        self.0
    }
}

impl NameGlob {
    /// Does it say nothing about names?
    pub fn is_any(&self) -> bool {
        self.0.bytes().all(|c| c == b'*')
    }

    /// The one name that fits, if it is no pattern at all.
    pub fn only(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&*self.0)
    }

    /// Whether a name, already checked to be one, fits.
    pub fn matches(&self, name: &str) -> bool {
        fits(&self.0, name)
    }

    /// A shortest name that fits both, if there is one.
    pub fn shared_name(&self, other: &Self) -> Option<String> {
        // No pair takes as many.
        self.shared_name_within(other, &mut Effort(u32::MAX)).unwrap_or_default()
    }

    /// The same for somebody who compares many patterns of somebody else.
    pub fn shared_name_within(&self, other: &Self, effort: &mut Effort) -> Result<Option<String>, TooHard> {
        effort.step()?;
        for (one, two) in [(self, other), (other, self)] {
            if !one.0.contains('*') {
                return Ok((two.matches(&one.0) && one.0.parse::<NodeName>().is_ok()).then(|| one.0.clone()));
            }
        }
        // Most pairs differ in what they begin or end with.
        let (one, two) = (self.0.as_bytes(), other.0.as_bytes());
        if apart(one.iter().zip(two)) || apart(one.iter().rev().zip(two.iter().rev())) {
            return Ok(None);
        }
        let seen = vec![false; (one.len() + 1) * (two.len() + 1) * 3];
        Search { one, two, steps: Vec::new(), seen, effort }.shortest()
    }
}

/// Whether all of a text fits a pattern in which `*` stands for any run.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    let mut parts = pattern.split('*').peekable();
    // The first part is anchored at the beginning, the last at the end; each part between at its first chance.
    let Some(stripped) = parts.next().and_then(|first| rest.strip_prefix(first)) else {
        return false;
    };
    if parts.peek().is_none() {
        return stripped.is_empty();
    }
    rest = stripped;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

/// Whether two letters differ before either pattern has a star.
fn apart<'g>(mut pairs: impl Iterator<Item = (&'g u8, &'g u8)>) -> bool {
    pairs.find(|(a, b)| **a == b'*' || **b == b'*' || a != b).is_some_and(|(a, b)| *a != b'*' && *b != b'*')
}

/// A walk through both patterns at once, one letter of the name at a time, the shortest names first.
struct Search<'g> {
    one: &'g [u8],
    two: &'g [u8],
    steps: Vec<Step>,
    seen: Vec<bool>,
    effort: &'g mut Effort,
}

/// How far a name has come in each pattern.
#[derive(Clone, Copy)]
struct Step {
    one: usize,
    two: usize,
    /// The name's last letter; 0 before the first.
    last: u8,
    /// The step before, and the letter that was taken then, if this is not the first.
    from: Option<usize>,
    letter: Option<u8>,
}

impl Search<'_> {
    fn shortest(mut self) -> Result<Option<String>, TooHard> {
        let mut level = Vec::new();
        self.reach(&mut level, Step { one: 0, two: 0, last: 0, from: None, letter: None })?;
        // A name has at most 63 letters.
        for _ in 0..=63 {
            self.skip_stars(&mut level)?;
            let ends = |step: &Step| {
                step.one == self.one.len() && step.two == self.two.len() && step.last.is_ascii_alphanumeric()
            };
            if let Some(at) = level.iter().copied().find(|at| self.steps.get(*at).is_some_and(ends)) {
                return Ok(Some(self.spell(at)));
            }
            let mut next = Vec::new();
            for at in level {
                if let Some(step) = self.take_letter(at) {
                    self.reach(&mut next, step)?;
                }
            }
            level = next;
        }
        Ok(None)
    }

    /// A star may stand for nothing.
    fn skip_stars(&mut self, level: &mut Vec<usize>) -> Result<(), TooHard> {
        let mut nth = 0;
        while let Some((at, step)) = level.get(nth).and_then(|at| Some((*at, *self.steps.get(*at)?))) {
            if self.one.get(step.one) == Some(&b'*') {
                self.reach(level, Step { one: step.one + 1, from: Some(at), letter: None, ..step })?;
            }
            if self.two.get(step.two) == Some(&b'*') {
                self.reach(level, Step { two: step.two + 1, from: Some(at), letter: None, ..step })?;
            }
            nth += 1;
        }
        Ok(())
    }

    fn take_letter(&self, at: usize) -> Option<Step> {
        let step = *self.steps.get(at)?;
        let (one, two) = (*self.one.get(step.one)?, *self.two.get(step.two)?);
        let letter = match (one, two) {
            (b'*', b'*') => b'x',
            (b'*', letter) | (letter, b'*') => letter,
            (one, two) if one == two => one,
            _ => return None,
        };
        let past = |pattern: u8| usize::from(pattern != b'*');
        (step.last != 0 || letter != b'-').then_some(Step {
            one: step.one + past(one),
            two: step.two + past(two),
            last: letter,
            from: Some(at),
            letter: Some(letter),
        })
    }

    fn reach(&mut self, level: &mut Vec<usize>, step: Step) -> Result<(), TooHard> {
        let kind = match step.last {
            0 => 0,
            b'-' => 1,
            _ => 2,
        };
        let state = (step.one * (self.two.len() + 1) + step.two) * 3 + kind;
        if let Some(seen) = self.seen.get_mut(state).filter(|seen| !**seen) {
            *seen = true;
            self.effort.step()?;
            level.push(self.steps.len());
            self.steps.push(step);
        }
        Ok(())
    }

    fn spell(&self, at: usize) -> String {
        let back = std::iter::successors(self.steps.get(at), |step| step.from.and_then(|from| self.steps.get(from)));
        let letters: Vec<u8> = back.filter_map(|step| step.letter).collect();
        letters.into_iter().rev().map(char::from).collect()
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NameGlob {
    type Err = BadGlob;
    fn from_str(text: &str) -> Result<Self, BadGlob> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'*';
        if text.is_empty() || text.len() > 63 || !text.bytes().all(allowed) {
            return Err(BadGlob(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

text_form!(NameGlob);

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop, prop_oneof, proptest};

    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        for (glob, name, fits) in [
            ("web-*", "web-1", true),
            ("web-*", "web-", false), // not a name
            ("web-*", "db-1", false),
            ("web-*", "my-web-1", false),
            ("*", "anything", true),
            ("*-db", "a-db", true),
            ("*-db", "a-db2", false),
            ("a*b*c", "aXbYc", false), // not a name
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("web-1", "web-1", true),
            ("web-1", "web-11", false),
            ("a*a", "a", false),
        ] {
            let found =
                name.parse::<NodeName>().is_ok_and(|name| glob.parse::<NameGlob>().unwrap().matches(name.as_str()));
            assert_eq!(found, fits, "{glob} {name}");
        }
    }

    fn shared(one: &str, two: &str) -> Option<String> {
        one.parse::<NameGlob>().unwrap().shared_name(&two.parse().unwrap())
    }

    #[test]
    fn two_patterns_share_a_name_or_do_not() {
        for (one, two, name) in [
            ("web-*", "*", Some("web-x")),
            ("web-*", "*-1", Some("web-1")),
            ("web-*", "db-*", None),
            ("*-db", "*-web", None),
            ("a*b", "a*c*b", Some("acb")),
            ("web-1", "web-*", Some("web-1")),
            ("web-1", "web-1", Some("web-1")),
            ("web-1", "web-2", None),
            ("*", "*", Some("x")),
            ("-*", "*", None), // no name begins so
            ("*-", "*", None),
            ("node", "*", None), // reserved
        ] {
            assert_eq!(shared(one, two).as_deref(), name, "{one} {two}");
            assert_eq!(shared(two, one).is_some(), name.is_some(), "{two} {one}");
        }
        let long = format!("{}*", "a".repeat(62));
        assert_eq!(shared(&long, "*b"), Some(format!("{}b", "a".repeat(62))));
        assert_eq!(shared(&long, "*bb"), None, "a name has 63 letters at most");
    }

    #[test]
    fn comparing_ends_when_the_effort_does() {
        let globs = [format!("{}*", "*a".repeat(31)), format!("{}*", "*b".repeat(31))];
        let [one, two] = globs.map(|glob| glob.parse::<NameGlob>().unwrap());
        let mut effort = Effort::of(1_000_000);
        assert_eq!(one.shared_name_within(&two, &mut effort).unwrap().unwrap().len(), 62);
        let Effort(left) = effort;
        assert!(left > 1_000_000 - 20_000, "{left}");
        assert_eq!(one.shared_name_within(&two, &mut Effort::of(100)), Err(TooHard));
    }

    /// Every name of these letters that is no longer than two small patterns can ask for.
    fn names() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..8 {
            let to = all.len();
            for at in from..to {
                for letter in ["a", "b", "-", "x"] {
                    all.push(format!("{}{letter}", all[at]));
                }
            }
            from = to;
        }
        all.into_iter().filter(|name| name.parse::<NodeName>().is_ok()).collect()
    }

    fn small_glob() -> impl Strategy<Value = NameGlob> {
        let letter = prop_oneof![Just('a'), Just('b'), Just('-'), Just('*')];
        prop::collection::vec(letter, 1..=4).prop_map(|letters| String::from_iter(letters).parse().unwrap())
    }

    #[test]
    fn what_patterns_share_is_what_trying_every_name_finds() {
        let names = names();
        proptest!(|(one in small_glob(), two in small_glob())| {
            let tried = names.iter().filter(|name| one.matches(name) && two.matches(name)).map(String::len).min();
            let found = one.shared_name(&two);
            assert_eq!(found.as_ref().map(String::len), tried, "{one} {two}");
            if let Some(name) = found {
                assert!(one.matches(&name) && two.matches(&name), "{one} {two} {name}");
            }
        });
    }
}
