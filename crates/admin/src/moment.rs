//! A moment as people type it: a time, a day, or how long ago.

use std::str::FromStr;

use identity::time::{Seconds, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    At(Timestamp),
    Ago(Seconds),
}

impl FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(span) = text.parse() {
            return Ok(Self::Ago(span));
        }
        let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00Z"));
        let time = if time.len() == "00:00Z".len() { time.replace('Z', ":00Z") } else { time.to_owned() };
        let at = format!("{day}T{time}").parse().map_err(|_| {
            format!("`{text}` is no time: write 2026-11-01T09:30:00Z (UTC), 2026-11-01 (its first second), or how long ago: 3d")
        });
        at.map(Self::At)
    }
}

impl Moment {
    pub fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now - span,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_day_or_how_long_ago() {
        let now: Timestamp = "2026-11-04T12:00:00Z".parse().unwrap();
        for (text, at) in [
            ("2026-11-01T09:30:00Z", "2026-11-01T09:30:00Z"),
            ("2026-11-01 09:30Z", "2026-11-01T09:30:00Z"),
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("3d", "2026-11-01T12:00:00Z"),
        ] {
            assert_eq!(text.parse::<Moment>().unwrap().before(now).to_string(), at);
        }
        for bad in ["", "yesterday", "2026-13-01", "2026-11-01T09:30:00+01:00", "2026-11-01T09:30"] {
            assert!(bad.parse::<Moment>().unwrap_err().contains("is no time"), "{bad}");
        }
    }
}
