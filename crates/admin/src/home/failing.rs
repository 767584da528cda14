//! An operator's failure as it is shown: the exit code, and what to do about it.

use std::error::Error;

use ground::archive::ArchiveError;
use ground::file::FileError;
use ground::passphrase::NoPassphrase;
use ground::random::NoRandomness;
use identity::envelope::BadEnvelope;
use identity::principal::BadName;
use identity::signers::BadQuorum;
use identity::trust::BadStep;
use member::store::scope::ScopeError;
use operate::folder::FolderError;
use operate::gateway::papers::NotCertified;
use operate::key::KeyError;
use operate::key::agent::place::NoPlace;
use operate::key::token::TokenError;
use operate::pending::BadPending;
use operate::publish::fleet::FleetError;
use operate::publish::fleet::git::GitError;
use operate::publish::plan::PlanError;
use operate::session::timely::ClockDoubt;
use operate::session::{DeskError, OperateError, TrustError, Unwise};
use operate::signer::home::HomeError;
use operate::trust::roots::RootError;
use org::ledger::draft::NotDrafted;
use org::refusal::WAY_OUT;
use terminal::failure::{Exit, Failure, PARTED};
use wire::connect::CallError;
use wire::known::BadKnowledge;

use super::{BEHIND, IS_IT_RUNNING};
use crate::secrets::without_passphrase;

/// An error as an operator is shown it. Each says so itself: one that is new does not compile until somebody decides.
pub trait Explain: Error + Sized + 'static {
    /// Its causes alone, unless there is something to do about it.
    fn explain(&self, doing: String) -> Failure {
        Failure::new(doing, self)
    }
}

/// Says what was being done when something failed: `folder.known().during("could not join")?`.
///
/// Beside the one in `terminal`, which takes every error as it is: here each has to have decided how it is told. Were the trait
/// of both `terminal`'s, an error of `operate` could not say it in this crate, which owns neither.
pub trait During<T> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Explain> During<T> for Result<T, E> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|why| failure(doing, &why))
    }
}

pub fn failure(doing: impl Into<String>, why: &impl Explain) -> Failure {
    why.explain(doing.into())
}

impl Explain for OperateError {
    fn explain(&self, doing: String) -> Failure {
        operating(doing, self)
    }
}

impl Explain for PlanError {
    fn explain(&self, doing: String) -> Failure {
        planning(doing, self)
    }
}

impl Explain for FleetError {
    fn explain(&self, doing: String) -> Failure {
        reading(doing, self)
    }
}

impl Explain for RootError {
    fn explain(&self, doing: String) -> Failure {
        without_root(doing, self)
    }
}

impl Explain for NotCertified {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Operate(why) => why.explain(doing),
            Self::Root(why) => why.explain(doing),
            Self::NoCertificate => {
                Failure::new(doing, self).hint("say where the root keys are: --roots DIR; or run this where they are")
            }
        }
    }
}

impl Explain for TrustError {
    fn explain(&self, doing: String) -> Failure {
        distrusting(doing, self)
    }
}

impl Explain for BadStep {
    fn explain(&self, doing: String) -> Failure {
        distrusting(doing, &TrustError::Step(self.clone()))
    }
}

impl Explain for ClockDoubt {
    fn explain(&self, doing: String) -> Failure {
        doubted(doing, self)
    }
}

impl Explain for TokenError {
    fn explain(&self, doing: String) -> Failure {
        let failure = Failure::new(doing, self);
        match self.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl Explain for HomeError {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Folder(why) => why.explain(doing),
            Self::File(why) => why.explain(doing),
            Self::Key(why) => why.explain(doing),
            Self::Token(why) => why.explain(doing),
            Self::NoRandomness(why) => why.explain(doing),
            Self::KeyIsHere(_) | Self::KeyIsThere => Failure::new(doing, self).exit(Exit::Refused),
            Self::OtherOrgHere => Failure::new(doing, self).exit(Exit::Refused).hint("choose another home: --home DIR"),
            Self::OtherOrgThere => Failure::new(doing, self).exit(Exit::Refused).hint("choose another home: --to DIR"),
        }
    }
}

// What these say is all there is to say.
impl Explain for ArchiveError {}
impl Explain for BadEnvelope {}
impl Explain for BadName {}
impl Explain for BadPending {}
impl Explain for BadQuorum {}
impl Explain for FileError {}
impl Explain for FolderError {}
impl Explain for GitError {}
impl Explain for KeyError {}
impl Explain for NoPassphrase {}
impl Explain for NoPlace {}
impl Explain for NoRandomness {}
impl Explain for ScopeError {}
impl Explain for Unwise {}
impl Explain for serde_json::Error {}
impl Explain for std::io::Error {}

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
        OperateError::Clock(doubt) => doubted(doing, doubt),
        OperateError::Desk(DeskError::OnlyObserves) => {
            Failure::new(doing, why).exit(Exit::Refused).hint("run it where an operator's folder is, without --as-node")
        }
        OperateError::Desk(DeskError::NoGateway | DeskError::NotHome(_)) => {
            Failure::new(doing, why).hint(IS_IT_RUNNING)
        }
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
        OperateError::Trust(why) => distrusting(doing, why),
        OperateError::TooFew { .. } => Failure::new(doing, why).exit(Exit::Waiting).waits_for_signatures(),
    }
}

fn distrusting(doing: String, why: &TrustError) -> Failure {
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

fn without_root(doing: String, why: &RootError) -> Failure {
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
    fn told_alike<E: Explain + Clone + Into<OperateError>>(why: E, hint: &str) {
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
