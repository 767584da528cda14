//! A moment and a span, in whole seconds. Nothing here knows what time it is now.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use crate::text::BadText;
use crate::text_form;

/// Seconds since 1970 in UTC, written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The year 9999: later moments have no RFC 3339 form.
    const LAST: i64 = 253_402_207_200;

    pub const fn from_unix(seconds: i64) -> Self {
        let clamped = if seconds < 0 {
            0
        } else if seconds > Self::LAST {
            Self::LAST
        } else {
            seconds
        };
        Self(clamped)
    }

    pub const fn unix(self) -> i64 {
        self.0
    }

    /// As a `Date` line of HTTP has it.
    pub fn from_http(text: &str) -> Option<Self> {
        let moment = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
        Some(Self::from_unix(moment.timestamp().as_second()))
    }

    /// The time that lies between, whichever is earlier.
    pub fn apart(self, other: Self) -> Seconds {
        Seconds(self.0.abs_diff(other.0))
    }

    /// The time that lies between, or nothing if `earlier` is later.
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(moment) => write!(f, "{moment}"),
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "RFC 3339 time in UTC" };
        let moment: jiff::Timestamp = text.parse().map_err(|_| bad)?;
        let parsed = Self::from_unix(moment.as_second());
        // One written form: what does not print back the same is refused.
        if parsed.to_string() == text { Ok(parsed) } else { Err(bad) }
    }
}

text_form!(Timestamp);

impl Add<Seconds> for Timestamp {
    type Output = Self;
    fn add(self, span: Seconds) -> Self {
        Self::from_unix(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}

impl Sub<Seconds> for Timestamp {
    type Output = Self;
    fn sub(self, span: Seconds) -> Self {
        Self::from_unix(self.0.saturating_sub(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}

/// A span of time; people write `90s`, `15m`, `24h`, `30d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub u64);

impl Seconds {
    pub const MINUTE: Self = Self(60);
    pub const HOUR: Self = Self(3_600);
    pub const DAY: Self = Self(86_400);

    /// For people, in its largest unit: `358 days`.
    pub fn roughly(self) -> String {
        for (unit, word) in [(86_400, "day"), (3_600, "hour"), (60, "minute")] {
            match self.0 / unit {
                0 => {}
                1 => return format!("1 {word}"),
                many => return format!("{many} {word}s"),
            }
        }
        format!("{} seconds", self.0)
    }

    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, letter) in [(86_400, 'd'), (3_600, 'h'), (60, 'm')] {
            if self.0 > 0 && self.0.is_multiple_of(unit) {
                return write!(f, "{}{letter}", self.0 / unit);
            }
        }
        write!(f, "{}s", self.0)
    }
}

impl FromStr for Seconds {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "span of time (like 90s, 15m, 24h or 30d)" };
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or(bad)?;
        let (number, unit) = text.split_at(split);
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(bad),
        };
        number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).map(Self).ok_or(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_written_form() {
        let moment: Timestamp = "2026-11-02T09:00:00Z".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-02T09:00:00Z");
        for other in ["2026-11-02T10:00:00+01:00", "2026-11-02 09:00:00Z", "2026-11-02T09:00:00.5Z", "now", ""] {
            assert!(other.parse::<Timestamp>().is_err(), "{other}");
        }
    }

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("24h", 86_400), ("30d", 2_592_000)] {
            assert_eq!(text.parse::<Seconds>(), Ok(Seconds(seconds)));
        }
        for bad in ["", "5", "h", "-1s", "1w", "99999999999999999999d", "1 h"] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
        assert_eq!(Seconds(86_400).to_string(), "1d");
        assert_eq!(Seconds(90).to_string(), "90s");
        assert_eq!(Seconds(86_400 * 358 + 7).roughly(), "358 days");
        assert_eq!(Seconds(3_700).roughly(), "1 hour");
        assert_eq!(Timestamp::from_unix(5).apart(Timestamp::from_unix(7)), Seconds(2));
    }
}
