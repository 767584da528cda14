//! What went wrong, in words: for people, for reports, for logs.

use identity::time::{Seconds, Timestamp};
use wire::connect::CallError;
use wire::known::freeze::{self, Freeze};
use wire::known::{BadKnowledge, Known};

use crate::ask::error::AskError;

/// Something that a gateway of this org would not say.
pub(crate) fn is_lie(why: &AskError) -> bool {
    match why {
        AskError::Knowledge(why) | AskError::Call(CallError::Knowledge { source: why, .. }) => {
            !matches!(why, BadKnowledge::RecoveryWaits { .. } | BadKnowledge::Frozen { .. })
        }
        AskError::Call(call) => matches!(call, CallError::Unreadable { .. }),
        AskError::Listing(_)
        | AskError::Manifest(_)
        | AskError::BadAnswer(_)
        | AskError::Untimely { .. }
        | AskError::Withheld { .. } => true,
        AskError::Tree(not_taken) => not_taken.is_lie(),
        _ => false,
    }
}

/// What a person should look at, although the machine works.
pub(crate) fn trouble(known: &Known, now: Timestamp) -> Option<String> {
    let frozen = Freeze::of(known, now).map(|freeze| format!("FROZEN: {freeze}"));
    // One that ends a freeze is told with it: nobody stops that.
    let alarms = if frozen.is_some() { Vec::new() } else { known.alarms() };
    let recovery = alarms.into_iter().map(|(set, due_at)| {
        let names = freeze::names(&set.quorum);
        format!(
            "RECOVERY: the recovery keys replace the org's signers by {names} at {due_at}; signers who are not lost stop it: freehold recover --cancel"
        )
    });
    recovery.chain(frozen).chain(behind(known, now)).chain(stale(known, now)).reduce(|all, one| format!("{all}; {one}"))
}

/// Clocks may be a little apart.
const LEEWAY: Seconds = Seconds::MINUTE;

/// What enough operators signed is in the past: a clock before it is slow, or theirs was fast.
fn behind(known: &Known, clock: Timestamp) -> Option<String> {
    let (version, signed) = (known.head.head.version, known.head.head.issued_at);
    let told = || {
        let apart = signed.since(clock).roughly();
        let or = if signed.since(clock) > Seconds::HOUR { ", or that of the operators was fast" } else { "" };
        format!(
            "this machine's clock is at least {apart} behind: head {version} was signed at {signed}, and here it is {clock}: set it{or}"
        )
    };
    (signed > clock + LEEWAY).then(told)
}

/// A gateway that holds back news shows itself by this.
fn stale(known: &Known, now: Timestamp) -> Option<String> {
    let until = known.head.head.fresh_until;
    let why = || {
        format!(
            "the org's head was fresh only until {until}: the operators have not renewed it (freehold refresh), or the gateway holds it back"
        )
    };
    (!known.head.head.is_fresh(now)).then(why)
}
