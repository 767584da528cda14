//! An operator's failure as it is shown: the exit code, and what to do about it.

use std::error::Error;

use identity::trust::BadStep;
use operate::publish::fleet::FleetError;
use operate::publish::plan::PlanError;
use operate::session::timely::ClockDoubt;
use operate::session::{DeskError, OperateError, TrustError};
use operate::trust::roots::RootError;
use org::ledger::draft::NotDrafted;
use org::refusal::WAY_OUT;
use terminal::failure::{Exit, Failure, PARTED};
use wire::connect::CallError;
use wire::known::BadKnowledge;

use super::BEHIND;
use crate::secrets::without_passphrase;

/// As `terminal::failure::During`, with what an operator can do about it.
pub trait During<T> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> During<T> for Result<T, E> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|why| failure(doing, &why))
    }
}

/// Any error of an operator's command, with the hint and the exit code of those that have one.
pub fn failure(doing: impl Into<String>, why: &(dyn Error + 'static)) -> Failure {
    let doing = doing.into();
    if let Some(why) = why.downcast_ref::<OperateError>() {
        operating(doing, why)
    } else if let Some(why) = why.downcast_ref::<PlanError>() {
        planning(doing, why)
    } else if let Some(why) = why.downcast_ref::<FleetError>() {
        reading(doing, why)
    } else if let Some(why) = why.downcast_ref::<RootError>() {
        rooting(doing, why)
    } else if let Some(why) = why.downcast_ref::<TrustError>() {
        unturned(doing, why)
    } else if let Some(step) = why.downcast_ref::<BadStep>() {
        unturned(doing, &TrustError::Step(step.clone()))
    } else if let Some(why) = why.downcast_ref::<ClockDoubt>() {
        doubted(doing, why)
    } else {
        Failure::new(doing, why)
    }
}

/// An operator's failure, with the gateway's refusal or the connection's fate brought to light.
fn operating(doing: String, why: &OperateError) -> Failure {
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
        OperateError::Clock(doubt) => doubted(doing, doubt),
        OperateError::Desk(DeskError::NoGateway | DeskError::NotHome(_)) => Failure::new(doing, why)
            .hint("is the gateway running? start it: freehold serve; or name it: --gateway HOST:PORT"),
        OperateError::Replica(full) if full.is_full() => {
            Failure::new(doing, why).hint("make room on that disk, where this home is, and run this again")
        }
        OperateError::Desk(DeskError::OtherAnswer | DeskError::Key(_) | DeskError::Ledger(_))
        | OperateError::Replica(_)
        | OperateError::Folder(_)
        | OperateError::Key(_)
        | OperateError::Envelope(_)
        | OperateError::NotDrafted(_)
        | OperateError::NoRandomness(_)
        | OperateError::Pending(_)
        | OperateError::Unwise(_) => Failure::new(doing, why),
        OperateError::NoSuch { what, .. } => Failure::new(doing, why).hint(see(what)),
        OperateError::NotKept { .. } => Failure::new(doing, why).hint("ask another gateway: --gateway HOST:PORT"),
        OperateError::Trust(why) => unturned(doing, why),
        OperateError::TooFew { .. } => Failure::new(doing, why).exit(Exit::Refused),
    }
}

fn unturned(doing: String, why: &TrustError) -> Failure {
    let refused = Failure::new(doing, why).exit(Exit::Refused);
    match why.hint() {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}

fn doubted(doing: String, why: &ClockDoubt) -> Failure {
    Failure::new(doing, why).exit(Exit::Refused).hint(match why {
        ClockDoubt::Early { .. } => {
            "nothing was signed or sent: compare this machine's clock, and that of whoever made it, with NTP; if the other \
             was wrong, make it anew"
        }
        ClockDoubt::NothingToReset { .. } => {
            "nothing was signed: freehold refresh renews a head whose time is right"
        }
        ClockDoubt::Behind { .. } => {
            "nothing was signed: compare this clock with NTP; if this one is right and the newest head is from the future: \
             freehold refresh --reset-clock; else set the clock that is wrong, or add --trust-clock"
        }
        _ => "nothing was signed: set the clock that is wrong; if this one is right, add --trust-clock",
    })
}

fn planning(doing: String, why: &PlanError) -> Failure {
    match why {
        PlanError::Operate(why) => operating(doing, why),
        PlanError::HeldBack { why: held, .. } => {
            let told = Failure::new(doing, why).exit(Exit::Refused);
            held.iter().take(1).map(manifest::compile::HeldBack::hint).fold(told, Failure::hint)
        }
        PlanError::OtherOrg { .. } => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("say which org is meant: --org NAME; or which fleet: freehold plan DIR"),
        PlanError::Low(_) => Failure::new(doing, why).exit(Exit::Refused).hint(
            "place it elsewhere; or let that machine join anew with an invite that is proven: freehold node replace NAME",
        ),
        PlanError::Published(_) => Failure::new(doing, why),
    }
}

/// Of the fleet's folder.
fn reading(doing: String, why: &FleetError) -> Failure {
    Failure::new(doing, why).hint(match why {
        FleetError::NoFolder(_) | FleetError::NotHere => {
            "say where the fleet is, or make an example to start from: freehold fleet init DIR"
        }
        FleetError::LeadsOut(_) => "put the file itself there: a fleet is one folder",
        FleetError::TooMany(_) | FleetError::TooLarge(_) => "name the fleet's own folder: freehold check DIR",
        FleetError::OddName(_) => "rename the file",
        FleetError::NotAFile(_) => "rename it, or put a file there",
        FleetError::AlreadyThere(_) => {
            "name an empty folder, or edit what is there; look at it with: freehold check DIR"
        }
        FleetError::Unreadable { .. } | FleetError::File(_) => "look at who may read and write there",
    })
}

fn rooting(doing: String, why: &RootError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        RootError::NotHere { .. } => {
            failure.hint("say where the root keys are: --roots DIR; or run this where they are")
        }
        RootError::Passphrase(why) => {
            failure.hint(without_passphrase(why, "give it with --passphrase-file FILE, or run this at a terminal"))
        }
        _ => failure,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a person is told of it bare, and inside of an operator's error.
    #[track_caller]
    fn told_alike<E: Error + Clone + Into<OperateError> + 'static>(why: E, hint: &str) {
        let told = [failure("it failed", &why), failure("it failed", &why.into())];
        for told in told.map(|told| format!("{told:?}")) {
            assert!(told.contains(hint) && told.contains("exit: Refused"), "{told}");
        }
    }

    #[test]
    fn an_error_is_told_alike_however_deep_it_lies() {
        told_alike(TrustError::NothingStaged("identity"), "publish one first: freehold trust publish DOMAIN");
        told_alike(TrustError::Step(BadStep::AlreadyStaged(7)), "or drop it: freehold trust rollback");
        let bare = format!("{:?}", failure("it failed", &BadStep::AlreadyStaged(7)));
        assert!(bare.contains("or drop it: freehold trust rollback") && bare.contains("exit: Refused"), "{bare}");
        let planned = PlanError::Operate(OperateError::LedgerBehind);
        assert!(format!("{:?}", failure("it failed", &planned)).contains(BEHIND));
    }
}
