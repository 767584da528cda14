//! When an agent lets go of its keys: the time is over, or the machine slept. Decides only; others read the clocks.

use std::time::Duration;

/// Clocks read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Since the machine started, without the time that it slept.
    pub awake: Duration,
    /// Since the machine started.
    pub elapsed: Duration,
    /// The time of day, since 1970. A paused virtual machine shows only here.
    pub wall: Duration,
}

/// Whether keys stay open, or why they do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHold {
    Hold,
    Over,
    Slept,
    ClockJumped,
}

/// Less than this may be the moment between two readings.
const NAP: Duration = Duration::from_secs(2);
/// Less than this may be a clock that is set right.
const JUMP: Duration = Duration::from_mins(1);

/// Whether a key that was handed over at `begun`, for `span`, may still be held.
pub(crate) fn judge(begun: Reading, now: Reading, span: Duration) -> KeyHold {
    let (Some(awake), Some(elapsed)) = (now.awake.checked_sub(begun.awake), now.elapsed.checked_sub(begun.elapsed))
    else {
        // These clocks never go back. If one does, nothing can be said of how long it was.
        return KeyHold::ClockJumped;
    };
    if elapsed.saturating_sub(awake) > NAP {
        return KeyHold::Slept;
    }
    if elapsed >= span {
        return KeyHold::Over;
    }
    if (begun.wall + elapsed).abs_diff(now.wall) > JUMP { KeyHold::ClockJumped } else { KeyHold::Hold }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(awake: u64, elapsed: u64, wall: u64) -> Reading {
        Reading {
            awake: Duration::from_secs(awake),
            elapsed: Duration::from_secs(elapsed),
            wall: Duration::from_secs(wall),
        }
    }

    #[test]
    fn keys_are_held_until_the_time_is_over_and_not_over_a_sleep() {
        let begun = at(1_000, 5_000, 1_000_000);
        let table = [
            (at(1_000, 5_000, 1_000_000), KeyHold::Hold),
            (at(1_899, 5_899, 1_000_899), KeyHold::Hold),
            (at(1_900, 5_900, 1_000_900), KeyHold::Over),
            // Suspended for three seconds, for an hour, past the end.
            (at(1_010, 5_013, 1_000_013), KeyHold::Slept),
            (at(1_010, 8_610, 1_003_610), KeyHold::Slept),
            (at(1_000, 9_000, 1_004_000), KeyHold::Slept),
            // Between two readings a moment passes; a clock is set right by a little.
            (at(1_010, 5_011, 1_000_011), KeyHold::Hold),
            (at(1_010, 5_010, 1_000_050), KeyHold::Hold),
            (at(1_010, 5_010, 999_960), KeyHold::Hold),
            // Paused from outside: only the time of day went on.
            (at(1_010, 5_010, 1_003_610), KeyHold::ClockJumped),
            (at(1_010, 5_010, 990_000), KeyHold::ClockJumped),
            (at(999, 5_010, 1_000_010), KeyHold::ClockJumped),
            (at(1_010, 4_999, 1_000_010), KeyHold::ClockJumped),
        ];
        for (now, verdict) in table {
            assert_eq!(judge(begun, now, Duration::from_mins(15)), verdict, "{now:?}");
        }
    }
}
