//! A monotonic clock, across restarts: for waiting out a delay, whatever the machine's clock is set to meanwhile.
//!
//! While a machine is on, its kernel counts, asleep or not, also from one run of a program to the next. How long it was off, its
//! clock alone can tell: what that is set ahead by meanwhile counts.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use identity::time::{Seconds, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::file::{self, FileAccess};

const NAME: &str = "steady.json";
/// So often it is written down. What the clock jumped by since then counts if the machine goes off.
const EVERY: u64 = 600;
/// Two clocks that are read in whole seconds are so far apart without a jump.
const SLACK: u64 = 2;

#[derive(Debug)]
pub struct Steady {
    file: PathBuf,
    kept: Mutex<Option<Kept>>,
}

/// What was read at one moment, and what time it was by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    at: Reading,
    steady: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// Which start of the machine it was.
    boot: String,
    /// Seconds since then.
    up: u64,
    clock: Timestamp,
}

impl Steady {
    /// Kept in this folder. What cannot be read is begun anew.
    pub fn of(folder: &Path) -> Self {
        let file = folder.join(NAME);
        let kept = file::read_if_there(&file).ok().flatten().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, kept: Mutex::new(kept) }
    }

    /// By how many seconds a clock that says `now` is ahead of one that never jumped.
    pub fn ahead(&self, now: Timestamp) -> i64 {
        let at = Reading::take(now);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let steady = kept.as_ref().map_or(now, |kept| kept.steady_at(&at));
        let is_due = |kept: &Kept| kept.at.boot != at.boot || at.up.abs_diff(kept.at.up) >= EVERY;
        if kept.as_ref().is_none_or(is_due) {
            let new = Kept { at, steady };
            // A disk that takes nothing shortens no delay: by what is kept in memory it goes on.
            let _unwritten = serde_json::to_vec(&new).map(|text| file::write(&self.file, &text, FileAccess::Private));
            *kept = Some(new);
        }
        now.unix() - steady.unix()
    }
}

impl Reading {
    fn take(clock: Timestamp) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let up = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or(0);
        Self { boot: boot.trim().to_owned(), up, clock }
    }
}

impl Kept {
    fn steady_at(&self, at: &Reading) -> Timestamp {
        let passed = if at.boot == self.at.boot {
            Seconds(at.up.saturating_sub(self.at.up))
        } else {
            at.clock.since(self.at.clock)
        };
        let steady = self.steady + passed;
        // As far ahead as before: whoever asks twice in one second is told the same.
        let usual = Timestamp::from_unix(at.clock.unix() - (self.at.clock.unix() - self.steady.unix()));
        if usual.apart(steady) <= Seconds(SLACK) { usual } else { steady }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix(1_800_000_000);

    fn at(boot: &str, up: u64, clock: Timestamp) -> Reading {
        Reading { boot: boot.to_owned(), up, clock }
    }

    #[test]
    fn a_clock_that_is_set_while_the_machine_is_on_moves_nothing() {
        let kept = Kept { at: at("one", 100, NOON), steady: NOON };
        for clock in [NOON + Seconds::DAY.times(400), NOON - Seconds::DAY.times(400), NOON + Seconds(60)] {
            assert_eq!(kept.steady_at(&at("one", 160, clock)), NOON + Seconds(60));
        }
        // What is only read a moment apart is no jump.
        assert_eq!(kept.steady_at(&at("one", 160, NOON + Seconds(61))), NOON + Seconds(61));
    }

    #[test]
    fn time_for_which_the_machine_was_off_counts_and_never_backward() {
        let kept = Kept { at: at("one", 100, NOON), steady: NOON };
        assert_eq!(kept.steady_at(&at("two", 5, NOON + Seconds::DAY)), NOON + Seconds::DAY);
        assert_eq!(kept.steady_at(&at("two", 5, NOON - Seconds::DAY)), NOON);
    }

    #[test]
    fn what_was_jumped_over_is_remembered_from_one_run_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let now = crate::clock::now();
        assert_eq!(Steady::of(folder.path()).ahead(now), 0);
        let ahead = Steady::of(folder.path()).ahead(now + Seconds::DAY);
        assert!((86_300..=86_400).contains(&ahead), "{ahead}");
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        assert_eq!(Steady::of(folder.path()).ahead(now + Seconds::DAY), 0);
    }
}
