//! How a command ends: its exit code, and an error that says what, why and what next.

use std::error::Error;
use std::process::ExitCode;

use ground::file::FileError;
use ground::passphrase::NoPassphrase;
use ground::plain::plain;
use identity::head::BadHead;
use member::ask::error::AskError;
use org::refusal::{Refusal, WAY_OUT};
use serde::Serialize;
use wire::connect::CallError;
use wire::known::BadKnowledge;

use crate::facts;
use crate::typed;

/// 0 done, 1 failed, 2 usage, 3 refused, 4 done and taken back by a node, 5 begun and waiting for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Failed,
    Usage,
    Refused,
    /// It was published, and not every node stayed with it.
    TakenBack,
    /// A person must say yes, and nobody waits for that here.
    Waiting,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::TakenBack => 4,
            Exit::Waiting => 5,
        })
    }
}

/// A command that did not do what it should.
#[derive(Debug)]
pub struct Failure {
    doing: String,
    causes: Vec<String>,
    code: Option<String>,
    hint: Option<String>,
    pub exit: Exit,
    /// Nobody was there who could have answered.
    pub nobody_answers: bool,
    /// Other operators must sign first.
    waits_for_signatures: bool,
}

#[derive(Serialize)]
struct FailureJson<'a> {
    error: &'a str,
    causes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    waits_for_signatures: bool,
}

impl Failure {
    /// From an error; refusals inside it set the exit code and bring their hint along.
    pub fn new(doing: impl Into<String>, why: &(dyn Error + 'static)) -> Self {
        let mut causes: Vec<String> = Vec::new();
        let mut refusal = None;
        let mut at = Some(why);
        while let Some(error) = at {
            let text = error.to_string();
            if causes.last().is_none_or(|last| !last.contains(&text)) {
                causes.push(text);
            }
            refusal = refusal.or_else(|| find_refusal(error));
            at = error.source();
        }
        let (exit, code, hint) = match refusal {
            Some(refusal) => (exit_for(refusal), Some(refusal.code()), refusal.hint().map(str::to_owned)),
            None => (exit_of(why), None, None),
        };
        // What is known of the clocks says more than the refusal alone.
        let known = call_in(why).and_then(way_out).or_else(|| clocks_in(why));
        let hint = known.or(hint).or_else(|| disk_hint(why).map(str::to_owned));
        Self {
            doing: doing.into(),
            causes,
            code,
            hint,
            exit,
            nobody_answers: nobody_answers(why),
            waits_for_signatures: false,
        }
    }

    pub fn usage(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            doing: doing.into(),
            causes: vec![why.into()],
            code: None,
            hint: None,
            exit: Exit::Usage,
            nobody_answers: false,
            waits_for_signatures: false,
        }
    }

    pub fn failed(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, ..Self::usage(doing, why) }
    }

    pub fn refused(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, ..Self::usage(doing, why) }
    }

    /// What went wrong, in one line.
    pub fn why(&self) -> String {
        self.causes.join(": ")
    }

    /// It is not refused for ever: other operators must sign first.
    #[must_use]
    pub const fn waits_for_signatures(mut self) -> Self {
        self.waits_for_signatures = true;
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = self.hint.or_else(|| Some(hint.into()));
        self
    }

    /// Names the gateway in a hint whose maker could not know it.
    #[must_use]
    pub fn at_gateway(mut self, gateway: &str) -> Self {
        self.hint = self.hint.map(|hint| hint.replace("gateway reopen NAME", &format!("gateway reopen {gateway}")));
        self
    }

    /// Beside what is hinted already.
    #[must_use]
    pub fn also(mut self, more: &str) -> Self {
        self.hint = Some(self.hint.map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}")));
        self
    }

    #[must_use]
    pub const fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Prints it where errors go, and gives the exit code.
    pub fn finish(mut self, json: bool) -> ExitCode {
        self.hint = self.hint.map(|hint| typed::repeated(&hint));
        if json {
            let told = FailureJson {
                error: &self.doing,
                causes: &self.causes,
                code: self.code.as_deref(),
                hint: self.hint.as_deref(),
                waits_for_signatures: self.waits_for_signatures,
            };
            eprintln!("{}", facts::line(&told));
        } else {
            eprintln!("error: {}", plain(&self.doing));
            for cause in &self.causes {
                eprintln!("  caused by: {}", plain(cause));
            }
            if let Some(hint) = &self.hint {
                eprintln!("hint: {}", plain(hint));
            }
        }
        self.exit.into()
    }
}

/// Says what was being done when something failed: `scope.node().during("could not join")?`.
pub trait During<T> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> During<T> for Result<T, E> {
    fn during(self, doing: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|why| Failure::new(doing, &why))
    }
}

fn find_refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refusal> {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return Some(refusal);
    }
    match call_in(error) {
        Some(CallError::Refused(refusal)) => Some(refusal),
        _ => None,
    }
}

fn call_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CallError> {
    match error.downcast_ref::<AskError>() {
        Some(AskError::Call(call)) => Some(call),
        _ => error.downcast_ref::<CallError>(),
    }
}

fn clocks_in(error: &(dyn Error + 'static)) -> Option<String> {
    let clocks = error.downcast_ref::<AskError>().and_then(AskError::clocks)?;
    Some(format!("{}; then run this again: nothing was done", clocks.cure()))
}

const NOT_OURS: &str = "something else than this org's gateway answers there, or somebody is in the middle: no secret was \
                        sent. Compare the address with the one that operators have (freehold gateway list); if it is the \
                        same, tell them. No switch turns this off";

pub const PARTED: &str = "ask an operator who is right: a machine then joins again, an operator begins in an empty home with \
                          a card (--card FILE)";

/// What the person can do who met something else than a gateway that can be believed.
pub fn way_out(call: &CallError) -> Option<String> {
    const COMPARE: &str = "compare `date -u` here and on the gateway with a clock that you trust";
    match call {
        CallError::NotAGateway { .. }
        | CallError::NotBelieved { .. }
        | CallError::Knowledge { source: BadKnowledge::Founding(_), .. } => Some(NOT_OURS.to_owned()),
        CallError::ClocksApart { .. } => {
            Some(format!("{COMPARE}, set the clock that is wrong, and run this again: nothing was done"))
        }
        CallError::NotInForce { clocks, .. } => {
            let cure = clocks.as_ref().map_or_else(|| COMPARE.to_owned(), |clocks| clocks.cure());
            Some(format!(
                "is a clock wrong? {cure}. If the mandate has really ended, an operator renews it: freehold refresh"
            ))
        }
        CallError::Knowledge { source: BadKnowledge::Head(BadHead::Stale { .. }), .. } => {
            Some(format!("an operator renews it: freehold refresh; if they did, a clock is wrong: {COMPARE}"))
        }
        CallError::Knowledge { source: BadKnowledge::Head(BadHead::FromTheFuture { .. }), .. } => Some(format!(
            "this machine's clock is slow, or that of the operators was fast: {COMPARE}; if this one is right, an operator \
             looks: freehold status"
        )),
        CallError::Knowledge { source: BadKnowledge::Frozen { .. }, .. } => Some(WAY_OUT.to_owned()),
        CallError::Knowledge { source: BadKnowledge::Parted, .. } => Some(PARTED.to_owned()),
        CallError::Knowledge { source: BadKnowledge::Signers(_) | BadKnowledge::Head(_), .. } => {
            Some("tell an operator all of this: the gateway runs on an old copy, was removed, or lies".to_owned())
        }
        _ => None,
    }
}

/// What the person at the disk can do.
fn disk_hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    use std::io::ErrorKind;
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(FileError::NotPrivate { .. }) = error.downcast_ref::<FileError>() {
            return Some("if others may have read it, it is no secret any more: have it replaced");
        }
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                return Some("make room on that disk, and run this again: nothing is half done");
            }
            Some(ErrorKind::ReadOnlyFilesystem) => return Some("that disk is mounted read-only: mount it for writing"),
            Some(ErrorKind::PermissionDenied) => return Some("run this as the user that owns it"),
            _ => at = error.source(),
        }
    }
    None
}

/// A gateway that wanted to but could not has not said no.
const fn exit_for(refusal: &Refusal) -> Exit {
    match refusal {
        Refusal::Busy { .. } | Refusal::Failed { .. } => Exit::Failed,
        _ => Exit::Refused,
    }
}

/// Not reached at all, or not in time: whoever is there said nothing that could be wrong.
fn nobody_answers(why: &(dyn Error + 'static)) -> bool {
    matches!(
        call_in(why),
        Some(CallError::Unreachable { .. } | CallError::NotCarried { .. } | CallError::Silent { .. })
    )
}

fn exit_of(error: &(dyn Error + 'static)) -> Exit {
    if lacks_passphrase(error) {
        return Exit::Usage;
    }
    if let Some(AskError::Revoked | AskError::BadAnswer(_) | AskError::Untimely { .. } | AskError::OtherWish { .. }) =
        error.downcast_ref::<AskError>()
    {
        return Exit::Refused;
    }
    match call_in(error) {
        Some(
            CallError::NotAccepted { .. }
            | CallError::NotAGateway { .. }
            | CallError::NotBelieved { .. }
            | CallError::NotInForce { .. }
            | CallError::ClocksApart { .. }
            | CallError::Tampered { .. }
            | CallError::Knowledge { .. },
        ) => Exit::Refused,
        _ => Exit::Failed,
    }
}

/// None was given that could be used: nothing was tried, and the next time it is given in another way.
fn lacks_passphrase(error: &(dyn Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        match error.downcast_ref::<NoPassphrase>() {
            Some(NoPassphrase::Terminal(_)) => return false,
            Some(
                NoPassphrase::File(_)
                | NoPassphrase::BadFile
                | NoPassphrase::NoTerminal
                | NoPassphrase::Differ
                | NoPassphrase::Empty,
            ) => return true,
            None => at = error.source(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use identity::time::Timestamp;
    use identity::verifier::untrusted::{Inactive, Untrusted};
    use org::founding::BadFounding;
    use wire::connect::clocks::Clocks;
    use wire::connect::reply::Foreign;

    use super::*;

    fn clocks(here: i64, there: i64) -> Clocks {
        let [here, there, signed] = [here, there, 1_800_000_000].map(Timestamp::from_unix);
        Clocks { here, there, gateway: "quay".parse().unwrap(), head: 7, signed }
    }

    /// What a person is told who met this.
    fn told(why: impl Into<AskError>) -> (String, Exit) {
        let failure = Failure::new("could not join `harbor`", &why.into());
        (failure.hint.unwrap_or_default(), failure.exit)
    }

    #[test]
    fn whoever_meets_something_else_than_the_orgs_gateway_hears_that_somebody_may_be_in_the_middle() {
        let address = || "127.0.0.1:1".parse().unwrap();
        let other = trials::scene::founding().id;
        let other = BadKnowledge::Founding(BadFounding::OtherOrg { expected: other, found: other });
        for why in [
            CallError::NotAGateway { address: address(), why: Foreign::NoKey },
            CallError::NotBelieved { address: address(), why: Untrusted::Malformed },
            CallError::Knowledge { address: Box::new(address()), source: other },
        ] {
            let (hint, exit) = told(why);
            assert!(hint.contains("somebody is in the middle") && hint.contains("Compare the address"), "{hint}");
            assert_eq!(exit, Exit::Refused);
        }
    }

    #[test]
    fn whoever_meets_a_freeze_hears_what_ends_it() {
        for (source, cure) in [
            (BadKnowledge::Frozen { steps: Vec::new() }, "freehold signer settle"),
            (BadKnowledge::Frozen { steps: Vec::new() }, "freehold recover --signer NAME"),
            (BadKnowledge::Parted, "a machine then joins again"),
        ] {
            let (hint, exit) = told(CallError::Knowledge { address: Box::new("127.0.0.1:1".parse().unwrap()), source });
            assert!(hint.contains(cure), "{hint}");
            assert_eq!(exit, Exit::Refused);
        }
    }

    #[test]
    fn a_no_by_another_clock_is_told_with_the_clocks_and_stays_a_no() {
        let refused = |clocks| AskError::OtherTime { refusal: Refusal::NoMandate, clocks: Box::new(clocks) };
        let (hint, exit) = told(refused(clocks(1_800_000_000, 1_700_000_000)));
        assert!(hint.starts_with("an operator sets the clock of `quay`"), "{hint}");
        assert_eq!(exit, Exit::Refused);
        let (hint, _) = told(refused(clocks(1_800_000_000, 1_900_000_000)));
        assert!(hint.starts_with("compare `date -u` here and on `quay`"), "{hint}");
        // Where the gateway's time is not known, it is the gateway's that is asked for.
        let (hint, _) = told(CallError::Refused(Refusal::NoMandate));
        assert!(hint.contains("is its clock right?"), "{hint}");
    }

    #[test]
    fn a_mandate_that_is_not_in_force_here_makes_a_person_look_at_clocks() {
        let [from, until, now] = [1_700_000_000, 1_800_000_000, 1_800_000_001].map(Timestamp::from_unix);
        for clocks in [None, Some(clocks(1_800_000_001, 1_799_000_000))] {
            let why = Box::new(Inactive { gateway: "quay".parse().unwrap(), from, until, now });
            let clocks = clocks.map(Box::new);
            let (hint, exit) = told(CallError::NotInForce { address: "127.0.0.1:1".parse().unwrap(), why, clocks });
            assert!(hint.contains("clock") && hint.contains("freehold refresh"), "{hint}");
            assert_eq!(exit, Exit::Refused);
        }
        for why in [BadHead::Stale { until, now }, BadHead::FromTheFuture { issued_at: until, now: from }] {
            let address = Box::new("127.0.0.1:1".parse().unwrap());
            let (hint, _) = told(CallError::Knowledge { address, source: why.into() });
            assert!(hint.contains("clock"), "{hint}");
        }
    }
}
