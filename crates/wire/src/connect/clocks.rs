//! Whose clock is wrong, as far as what the operators signed can tell.

use std::fmt;

use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};

use crate::known::Known;

/// A little is normal; more makes certificates seem to end too early or to begin too late.
const LEEWAY: Seconds = Seconds::MINUTE.times(5);

/// Two clocks, and the newest moment that enough operators signed: that one has come, whatever a clock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocks {
    pub here: Timestamp,
    pub there: Timestamp,
    pub gateway: NodeName,
    pub head: u64,
    pub signed: Timestamp,
}

/// Which of two clocks cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    Here,
    There,
    Both,
    /// One that is ahead contradicts nothing that was signed.
    Unknown,
}

impl Clocks {
    pub fn new(here: Timestamp, there: Timestamp, gateway: &NodeName, known: &Known) -> Self {
        let head = &known.head.head;
        Self { here, there, gateway: gateway.clone(), head: head.version, signed: head.issued_at }
    }

    /// Nothing if they agree well enough.
    pub fn apart(self) -> Option<Self> {
        (self.here.apart(self.there) > LEEWAY).then_some(self)
    }

    /// What a gateway says of the time never makes this machine's clock the wrong one: only the operators' word does.
    pub fn wrong(&self) -> Wrong {
        let is_slow = |clock: Timestamp| clock + LEEWAY < self.signed;
        match (is_slow(self.here), is_slow(self.there)) {
            (true, true) => Wrong::Both,
            (true, false) => Wrong::Here,
            (false, true) => Wrong::There,
            (false, false) => Wrong::Unknown,
        }
    }

    /// What to do about it.
    pub fn cure(&self) -> String {
        match self.wrong() {
            Wrong::Here => "set this machine's clock".to_owned(),
            Wrong::There => {
                format!("an operator sets the clock of `{}`; leave this machine's as it is", self.gateway)
            }
            Wrong::Both => {
                "set both; if both are right, whoever signed that head had a clock that was fast, and an operator looks: \
                 freehold status"
                    .to_owned()
            }
            Wrong::Unknown => {
                format!("compare `date -u` here and on `{}` with a clock that you trust, and set the wrong one", self.gateway)
            }
        }
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { here, there, gateway, head, signed } = self;
        match self.wrong() {
            Wrong::Here => {
                let behind = signed.since(*here).roughly();
                write!(
                    f,
                    "this machine's clock is at least {behind} behind: head {head} was signed at {signed}, and here it is \
                     {here}; at the gateway it is {there}"
                )
            }
            Wrong::There => {
                let behind = signed.since(*there).roughly();
                write!(
                    f,
                    "the clock of the gateway `{gateway}` is at least {behind} behind: head {head} was signed at {signed}, \
                     and there it is {there}; here it is {here}"
                )
            }
            Wrong::Both => write!(
                f,
                "this machine's clock ({here}) and that of the gateway `{gateway}` ({there}) are both before the time at \
                 which head {head} was signed ({signed})"
            ),
            Wrong::Unknown => {
                let (apart, way) = (here.apart(*there).roughly(), if here > there { "ahead of" } else { "behind" });
                write!(
                    f,
                    "this machine's clock ({here}) is {apart} {way} the gateway's ({there}), and nothing that was signed \
                     tells which of the two is wrong"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: Timestamp = Timestamp::from_unix(1_800_000_000);

    fn clocks(here: Timestamp, there: Timestamp) -> Clocks {
        Clocks { here, there, gateway: "quay".parse().unwrap(), head: 7, signed: SIGNED }
    }

    fn check(here: Timestamp, there: Timestamp, wrong: Wrong, told: &str, cure: &str) {
        let clocks = clocks(here, there);
        assert_eq!(clocks.wrong(), wrong);
        let (said, cured) = (clocks.to_string(), clocks.cure());
        assert!(said.contains(told), "{said}");
        for time in [here, there] {
            assert!(said.contains(&time.to_string()), "both times are told: {said}");
        }
        assert!(cured.contains(cure), "{cured}");
    }

    #[test]
    fn a_gateway_whose_clock_is_before_what_was_signed_is_the_wrong_one() {
        let (here, there) = (SIGNED + Seconds::HOUR, SIGNED - Seconds::DAY.times(2));
        check(
            here,
            there,
            Wrong::There,
            "the clock of the gateway `quay` is at least 2 days behind",
            "leave this machine's as it is",
        );
    }

    #[test]
    fn a_machine_whose_clock_is_before_what_was_signed_is_told_to_set_it() {
        let (here, there) = (SIGNED - Seconds::HOUR.times(3), SIGNED + Seconds::MINUTE);
        check(
            here,
            there,
            Wrong::Here,
            "this machine's clock is at least 3 hours behind: head 7",
            "set this machine's clock",
        );
        check(SIGNED - Seconds::DAY, SIGNED - Seconds::DAY, Wrong::Both, "are both before", "set both");
    }

    #[test]
    fn where_nothing_signed_decides_both_clocks_are_to_be_compared() {
        let (early, late) = (SIGNED + Seconds::HOUR, SIGNED + Seconds::HOUR.times(19));
        check(late, early, Wrong::Unknown, "18 hours ahead of the gateway's", "compare `date -u`");
        check(early, late, Wrong::Unknown, "18 hours behind the gateway's", "compare `date -u`");
    }

    #[test]
    fn no_word_of_a_gateway_has_a_clock_set_that_contradicts_nothing_signed() {
        for here in [SIGNED, SIGNED + Seconds::DAY, SIGNED + Seconds::DAY.times(900)] {
            for there in [0, 1, 1_799_000_000, 1_800_000_000, 1_900_000_000, i64::MAX].map(Timestamp::from_unix) {
                let clocks = clocks(here, there);
                assert!(!clocks.cure().starts_with("set "), "{clocks}: {}", clocks.cure());
            }
        }
    }

    #[test]
    fn clocks_that_are_a_little_apart_are_no_news() {
        assert_eq!(clocks(SIGNED, SIGNED + Seconds::MINUTE.times(5)).apart(), None);
        assert!(clocks(SIGNED, SIGNED + Seconds::MINUTE.times(6)).apart().is_some());
    }
}
