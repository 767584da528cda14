//! Whether the clock of this machine can be right, as far as that can be known before something is signed by it.

use identity::time::{Seconds, Timestamp};
use org::frontier::Tip;
use wire::known::Known;

use crate::desk::Desk;
use crate::folder::Memory;
use crate::head::FRESH;
use crate::session::{OperateError, Session};

/// Why nothing is signed by this clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockDoubt {
    #[error("this machine's clock says {here}, and the gateway's says {there}: they are {} apart", here.apart(*there).roughly())]
    Apart { here: Timestamp, there: Timestamp },
    #[error("this machine's clock says {here}, which is {} before the newest that is known of the org ({newest})", here.apart(*newest).roughly())]
    Behind { here: Timestamp, newest: Timestamp },
    #[error("this machine's clock says {here}, which is {} after the newest that is known of the org ({newest})", here.apart(*newest).roughly())]
    FarAhead { here: Timestamp, newest: Timestamp },
}

/// Clocks that are a little apart do no harm.
const LITTLE: Seconds = Seconds::HOUR;
/// An org in which nothing was signed or looked at for so long is rarer than a clock that is off.
const LONG: Seconds = FRESH.times(2);

/// The latest moment that an operator's folder knows of.
pub fn newest(known: &Known, memory: &Memory) -> Timestamp {
    let issued_at = known.head.head.issued_at;
    let tip = memory.tip.as_ref().and_then(|tip| tip.peek::<Tip>(Some(known.org())).ok());
    tip.map_or(issued_at, |tip| tip.at.max(issued_at))
}

/// Both clocks against each other, and this one against the newest that was known before.
pub fn doubt(here: Timestamp, there: Option<Timestamp>, newest: Timestamp) -> Result<(), ClockDoubt> {
    if let Some(there) = there.filter(|there| here.apart(*there) > LITTLE) {
        return Err(ClockDoubt::Apart { here, there });
    }
    if newest > here + LITTLE {
        return Err(ClockDoubt::Behind { here, newest });
    }
    if here > newest + LONG {
        return Err(ClockDoubt::FarAhead { here, newest });
    }
    Ok(())
}

impl<D: Desk> Session<D> {
    /// A head from the future would be good for too long, and one from the past for nobody.
    pub(crate) fn check_clock(&self, here: Timestamp) -> Result<(), OperateError> {
        if self.trust_clock {
            return Ok(());
        }
        let there = self.survey.tip.as_ref().and_then(|tip| tip.peek::<Tip>(Some(self.known.org())).ok());
        Ok(doubt(here, there.map(|tip| tip.at), self.newest.max(self.known.head.head.issued_at))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_doubted_that_disagrees_with_the_gateway_or_with_what_is_known() {
        let newest = Timestamp::from_unix(1_800_000_000);
        let year = Seconds::DAY.times(365);
        assert_eq!(doubt(newest, None, newest), Ok(()));
        assert_eq!(doubt(newest + LONG, Some(newest + LONG), newest), Ok(()));
        let (ahead, behind) = (newest + year, newest - year);
        assert_eq!(doubt(ahead, Some(newest), newest), Err(ClockDoubt::Apart { here: ahead, there: newest }));
        assert_eq!(doubt(ahead, Some(ahead), newest), Err(ClockDoubt::FarAhead { here: ahead, newest }));
        assert_eq!(doubt(behind, Some(behind), newest), Err(ClockDoubt::Behind { here: behind, newest }));
        assert!(ClockDoubt::Behind { here: behind, newest }.to_string().contains("365 days before"));
    }
}
