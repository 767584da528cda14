//! How long a machine goes on when no gateway answers any more, and what ends it. Decides only.

use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::enroll::renew::RETURN_WINDOW;

/// What ends the life of a machine that hears of nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// It has none, or an expired one: nobody believes it now.
    NoSvid,
    /// It was made for longer than the mandate allows by now: nobody believes it until it is renewed.
    TooLong,
    Svid,
    /// The mandate of the gateway that issued its SVID: with it, all of its leaves end.
    Mandate,
    /// The certificate of the issuing key, or of its root.
    Issuer,
}

impl Limit {
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoSvid => "no SVID",
            Self::TooLong => "an SVID for longer than is allowed now: it must renew",
            Self::Svid => "its SVID",
            Self::Mandate => "the mandate of its gateway",
            Self::Issuer => "the certificate of its gateway's issuing key",
        }
    }
}

/// When the things end by which a machine is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub svid: Option<Timestamp>,
    /// The longest life of an SVID under that mandate.
    pub longest: Seconds,
    pub mandate: Option<Timestamp>,
    /// Unknown if the gateway does not say.
    pub issuer: Option<Timestamp>,
}

/// Clocks may be so far apart.
const SLACK: Seconds = Seconds::MINUTE.times(5);

/// Until when it is believed without a gateway, and what ends that. Of two ends at one moment, the nearer to the machine.
pub fn survival(ends: Ends, now: Timestamp) -> (Timestamp, Limit) {
    let Some(svid) = ends.svid.filter(|svid| *svid > now) else {
        return (now, Limit::NoSvid);
    };
    // Its beginning is not known here; one that reaches further than any that is made now was surely made for longer.
    if svid > now + ends.longest + SLACK {
        return (now, Limit::TooLong);
    }
    let mandate = ends.mandate.map_or((now, Limit::Mandate), |end| (end, Limit::Mandate));
    let issuer = ends.issuer.map(|end| (end, Limit::Issuer));
    let all = [(svid, Limit::Svid), mandate].into_iter().chain(issuer);
    let (at, limit) = all.min().unwrap_or((svid, Limit::Svid));
    (at.max(now), limit)
}

/// Until when it comes back by its node key alone, once a gateway answers; later only by an operator's word.
pub fn returns_until(svid: Timestamp) -> Timestamp {
    svid + RETURN_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_lasts_until_the_first_of_its_papers_ends() {
        let now = Timestamp::from_unix(1_800_000_000);
        let days = |n: u64| Some(now + Seconds::DAY.times(n));
        for (svid, mandate, issuer, until, limit) in [
            (days(1), days(365), days(900), 1, Limit::Svid),
            (days(400), days(365), days(900), 365, Limit::Mandate),
            (days(400), days(365), days(2), 2, Limit::Issuer),
            (days(3), days(3), days(3), 3, Limit::Svid),
            (days(1), days(365), None, 1, Limit::Svid),
            // Its gateway has no mandate: nobody believes what it issued.
            (days(1), None, days(900), 0, Limit::Mandate),
            (None, days(365), days(900), 0, Limit::NoSvid),
            (Some(now), days(365), days(900), 0, Limit::NoSvid),
            (Some(now - Seconds::DAY), days(365), days(900), 0, Limit::NoSvid),
            (days(1), Some(now - Seconds::DAY), None, 0, Limit::Mandate),
        ] {
            let longest = Seconds::DAY.times(500);
            let found = survival(Ends { svid, longest, mandate, issuer }, now);
            assert_eq!(found, (now + Seconds::DAY.times(until), limit), "{svid:?} {mandate:?} {issuer:?}");
        }
        let cut = Ends { svid: days(2), longest: Seconds::DAY, mandate: days(365), issuer: None };
        assert_eq!(survival(cut, now), (now, Limit::TooLong));
        let kept = Ends { svid: days(1), ..cut };
        assert_eq!(survival(kept, now), (now + Seconds::DAY, Limit::Svid));
        assert_eq!(returns_until(now), now + Seconds::DAY.times(365));
    }
}
