//! An operator's failure as it is shown: the exit code, and what to do about it.

use ledger::replicate::NotTaken;
use operate::replica::ReplicaError;
use operate::session::timely::ClockDoubt;
use operate::session::{DeskError, OperateError};
use org::ledger::draft::NotDrafted;
use terminal::failure::{Exit, Failure, PARTED};
use wire::connect::CallError;
use wire::known::BadKnowledge;
use wire::known::freeze::WAY_OUT;

use super::BEHIND;

/// An operator's failure, with the gateway's refusal or the connection's fate brought to light.
pub fn failure(doing: &str, why: &OperateError) -> Failure {
    match why {
        OperateError::Desk(DeskError::Refused(refusal) | DeskError::Call(CallError::Refused(refusal))) => {
            Failure::new(doing, refusal)
        }
        OperateError::Desk(DeskError::Call(call)) => Failure::new(doing, call),
        OperateError::Knowledge(BadKnowledge::Frozen { .. }) | OperateError::NotDrafted(NotDrafted::Frozen(_)) => {
            Failure::new(doing, why).exit(Exit::Refused).hint(WAY_OUT)
        }
        OperateError::Knowledge(BadKnowledge::Parted) => Failure::new(doing, why).exit(Exit::Refused).hint(PARTED),
        OperateError::LedgerBehind
        | OperateError::NotBrought(_)
        | OperateError::Knowledge(_)
        | OperateError::NotAsTold { .. }
        | OperateError::NotTaken => Failure::new(doing, why).exit(Exit::Refused).hint(BEHIND),
        OperateError::Distrusted(_) => Failure::new(doing, why).exit(Exit::Refused).hint(
            "somebody may have taken over the gateway: look at it and at those machines; if the new machine is right, \
             revoke the old key first: freehold node revoke NAME",
        ),
        OperateError::Clock(ClockDoubt::Early { .. }) => Failure::new(doing, why).exit(Exit::Refused).hint(
            "nothing was signed or sent: compare this machine's clock, and that of whoever made it, with NTP; if the other \
             was wrong, make it anew",
        ),
        OperateError::Clock(ClockDoubt::NothingToReset { .. }) => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("nothing was signed: freehold refresh renews a head whose time is right"),
        OperateError::Clock(ClockDoubt::Behind { .. }) => Failure::new(doing, why).exit(Exit::Refused).hint(
            "nothing was signed: compare this clock with NTP; if this one is right and the newest head is from the future: \
             freehold refresh --reset-clock; else set the clock that is wrong, or add --trust-clock",
        ),
        OperateError::Clock(_) => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("nothing was signed: set the clock that is wrong; if this one is right, add --trust-clock"),
        OperateError::Desk(DeskError::NoGateway | DeskError::NotHome(_)) => Failure::new(doing, why)
            .hint("is the gateway running? start it: freehold serve; or name it: --gateway HOST:PORT"),
        OperateError::Replica(ReplicaError::Ledger(full) | ReplicaError::NotTaken(NotTaken::Ledger(full)))
            if full.is_full() =>
        {
            Failure::new(doing, why).hint("make room on that disk, where this home is, and run this again")
        }
        OperateError::Desk(DeskError::OtherAnswer | DeskError::Key(_) | DeskError::Ledger(_))
        | OperateError::Replica(ReplicaError::File(_) | ReplicaError::Ledger(_) | ReplicaError::NotTaken(_))
        | OperateError::Folder(_)
        | OperateError::Key(_)
        | OperateError::Envelope(_)
        | OperateError::NotDrafted(_)
        | OperateError::NoRandomness(_)
        | OperateError::Pending(_)
        | OperateError::Unwise(_) => Failure::new(doing, why),
        OperateError::NoSuch { what, .. } => Failure::new(doing, why).hint(see(what)),
        OperateError::NotKept { .. } => Failure::new(doing, why).hint("ask another gateway: --gateway HOST:PORT"),
        OperateError::Unturned(unturned) => {
            let refused = Failure::new(doing, unturned).exit(Exit::Refused);
            match unturned.hint() {
                Some(hint) => refused.hint(hint),
                None => refused,
            }
        }
        OperateError::TooFew { .. } => Failure::new(doing, why).exit(Exit::Refused),
    }
}

/// As `terminal::failure::During`, with what is known of an operator's failure.
pub trait During<T> {
    fn during(self, doing: impl AsRef<str>) -> Result<T, Failure>;
}

impl<T> During<T> for Result<T, OperateError> {
    fn during(self, doing: impl AsRef<str>) -> Result<T, Failure> {
        self.map_err(|why| failure(doing.as_ref(), &why))
    }
}

/// Where to look for what is there, when something is not.
fn see(what: &str) -> &'static str {
    match what {
        "node" => "see which there are: freehold node list",
        "invite" => "see which there are: freehold invite list",
        "waiver" => "see which there are: freehold invite waivers",
        "gateway" | "mandate of" => "see which there are: freehold gateway list",
        "signer" => "see which there are: freehold signer list",
        _ => "see what there was: freehold audit",
    }
}
