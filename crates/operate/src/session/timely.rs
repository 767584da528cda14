//! Whether the clock of this machine can be right, as far as that can be known before something is signed by it.

use identity::bundle::BundleBody;
use identity::envelope::Payload as _;
use identity::head::Head;
use identity::id::OrgId;
use identity::signers::Recovery;
use identity::time::{Seconds, Timestamp};
use org::invite::Invite;
use org::ledger::frontier::Tip;
use org::state::head::AHEAD;
use wire::known::Known;

use crate::folder::Memory;
use crate::pending::handed::Handed;
use crate::session::Session;

/// Why nothing is signed by this clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockDoubt {
    #[error("this machine's clock says {here}, and the gateway's says {there}: they are {} apart", here.apart(*there).roughly())]
    Apart { here: Timestamp, there: Timestamp },
    #[error("this machine's clock says {here}, which is {} before the newest that is known of the org ({newest})", here.apart(*newest).roughly())]
    Behind { here: Timestamp, newest: Timestamp },
    #[error("this machine's clock says {here}, which is {} after the newest that is known of the org ({newest})", here.apart(*newest).roughly())]
    FarAhead { here: Timestamp, newest: Timestamp },
    #[error("the {what} is dated {dated}, which is {} ahead of this machine's clock ({here})", dated.since(*here).roughly())]
    Early { what: &'static str, dated: Timestamp, here: Timestamp },
    #[error(
        "the newest head is not from the future: it was issued at {issued_at}, and this machine's clock says {here}"
    )]
    NothingToReset { issued_at: Timestamp, here: Timestamp },
}

/// What a person said of this machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reliance {
    Doubted,
    /// Sign although it seems wrong.
    Trusted,
    /// The newest head is from the future, and the next one is to say so.
    Resets,
}

/// How long the first head is fresh, and how long a mandate lasts from its renewal. Later heads are as long as the one
/// before, until a fleet says otherwise.
pub const FRESH: Seconds = Seconds::DAY.times(30);
pub const MANDATE: Seconds = Seconds::DAY.times(365);
/// Clocks that are a little apart do no harm.
const LITTLE: Seconds = Seconds::HOUR;
/// An org in which nothing was signed or looked at for so long is rarer than a clock that is off.
const LONG: Seconds = FRESH.times(2);

/// The latest moment that an operator's folder knows of.
pub(super) fn newest(known: &Known, memory: &Memory) -> Timestamp {
    let issued_at = known.head.head.issued_at;
    let tip = memory.tip.as_ref().and_then(|tip| tip.peek::<Tip>(Some(known.org())).ok());
    tip.map_or(issued_at, |tip| tip.at.max(issued_at))
}

/// Both clocks against each other, and this one against the newest that was known before.
pub(crate) fn doubt(here: Timestamp, there: Option<Timestamp>, newest: Timestamp) -> Result<(), ClockDoubt> {
    // The gateway takes nothing that is dated ahead of it.
    if let Some(there) = there.filter(|there| here > *there + AHEAD || *there > here + LITTLE) {
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

/// Does it bring a head with the right time, after one from the future?
pub(crate) fn sets_back(known: &Known, handed: &Handed, here: Timestamp) -> bool {
    let head = handed.head(known.org());
    known.head.head.issued_at > here + AHEAD && head.is_some_and(|head| head.issued_at <= here + AHEAD)
}

/// Nobody signs, or sends, what is dated ahead of the own clock: as a floor it would hold for everybody.
pub(crate) fn check_dates(org: OrgId, handed: &Handed, here: Timestamp) -> Result<(), ClockDoubt> {
    for object in &handed.0 {
        let dated = match object.kind() {
            Head::KIND => object.peek::<Head>(Some(org)).ok().map(|it| ("head", it.issued_at)),
            BundleBody::KIND => object.peek::<BundleBody>(Some(org)).ok().map(|it| ("trust bundle", it.published_at)),
            Recovery::KIND => object.peek::<Recovery>(Some(org)).ok().map(|it| ("recovery", it.at)),
            Invite::KIND => object.peek::<Invite>(Some(org)).ok().map(|it| ("invite", it.created_at)),
            _ => None,
        };
        if let Some((what, dated)) = dated.filter(|(_, dated)| *dated > here + AHEAD) {
            return Err(ClockDoubt::Early { what, dated, here });
        }
    }
    Ok(())
}

impl Session {
    /// The latest moment that this clock, or one that agrees with it, knows of: for what would be over too early by one that
    /// is a little slow.
    pub fn latest(&self, here: Timestamp) -> Timestamp {
        match self.reliance {
            Reliance::Trusted | Reliance::Resets => here,
            Reliance::Doubted => here.max(self.newest).max(self.there().unwrap_or(here)),
        }
    }

    /// What the gateway's clock said.
    fn there(&self) -> Option<Timestamp> {
        let tip = self.survey.tip.as_ref().and_then(|tip| tip.peek::<Tip>(Some(self.known.org())).ok());
        tip.map(|tip| tip.at)
    }

    /// A head from the future would be good for too long, and one from the past for nobody.
    pub fn check_clock(&self, here: Timestamp) -> Result<(), ClockDoubt> {
        let (there, issued_at) = (self.there(), self.known.head.head.issued_at);
        match self.reliance {
            Reliance::Trusted => Ok(()),
            // What is known of the org is what is doubted; the gateway's clock must agree all the same.
            Reliance::Resets if issued_at <= here + AHEAD => Err(ClockDoubt::NothingToReset { issued_at, here }),
            Reliance::Resets => doubt(here, there, here),
            Reliance::Doubted => doubt(here, there, self.newest.max(issued_at)),
        }
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
        let quarter = Seconds::MINUTE.times(15);
        let (early, late) = (newest + quarter, newest - quarter);
        assert_eq!(doubt(late, Some(newest), newest), Ok(()), "behind the gateway by less than an hour");
        assert_eq!(doubt(early, Some(newest), newest), Err(ClockDoubt::Apart { here: early, there: newest }));
        let (ahead, behind) = (newest + year, newest - year);
        assert_eq!(doubt(ahead, Some(newest), newest), Err(ClockDoubt::Apart { here: ahead, there: newest }));
        assert_eq!(doubt(ahead, Some(ahead), newest), Err(ClockDoubt::FarAhead { here: ahead, newest }));
        assert_eq!(doubt(behind, Some(behind), newest), Err(ClockDoubt::Behind { here: behind, newest }));
        assert!(ClockDoubt::Behind { here: behind, newest }.to_string().contains("365 days before"));
    }
}
