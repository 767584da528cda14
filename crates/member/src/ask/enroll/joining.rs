//! When a join asks again (backoff), waits or ends. Decides only; `enroll` asks, tells, sleeps and tidies up.

use std::time::Duration;

use identity::time::Seconds;
use org::refusal::Refusal;

/// Tries this often while gateways cannot be reached or break off.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(300);
/// Whoever waits for a person tries for ever, but no oftener than this while no gateway answers.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Asked again no sooner than this, whatever a gateway answers.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// Within a stranger's connection, with time to spare for what comes before.
pub(super) const ROUND: Seconds = Seconds(40);

/// Where one run of a join stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Joining {
    /// This machine had no key here before this run.
    fresh: bool,
    heard: Heard,
    backoff: Backoff,
}

/// What gateways have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    /// One was asked, and its answer was lost: it is not known what was spent.
    Unsure,
    /// A person must approve it: heard in an earlier run, or in this one, which has `told` so.
    Waits {
        told: bool,
    },
}

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Admitted,
    /// A person must approve this machine.
    Waits,
    /// Nobody answered, or somebody who wants to be asked later.
    Lost,
    Refused(No),
    /// Something else, which asking again does not cure.
    Failed,
}

/// What a refusal means for this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum No {
    /// It was never let in, and as what it is it never will be.
    Denied,
    NameTaken,
    /// The invite is over, and with it the wait.
    InviteOver,
    /// Not at this gateway, or not as it stands: another may have the right.
    NotHere,
    /// In which nothing was spent.
    Clear,
    /// Leaves open what happened.
    Unclear,
}

/// What a gateway's no says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub no: No,
    /// Another gateway may have the right, or know more: it is asked, too.
    pub only_here: bool,
}

const fn here(no: No) -> Meaning {
    Meaning { no, only_here: true }
}

const fn everywhere(no: No) -> Meaning {
    Meaning { no, only_here: false }
}

/// One table without a default arm: keys are wiped by it, so nobody adds a refusal without deciding.
pub(super) const fn meaning(refusal: &Refusal) -> Meaning {
    match refusal {
        Refusal::Denied => everywhere(No::Denied),
        Refusal::NameTaken { .. } => everywhere(No::NameTaken),
        Refusal::InviteExpired { .. } | Refusal::InviteRevoked => everywhere(No::InviteOver),
        Refusal::InviteUsedUp { .. } => here(No::InviteOver),
        Refusal::InviteUnknown { .. } => here(No::Clear),
        Refusal::InviteNotHere
        | Refusal::NoMandate
        | Refusal::HeadStale { .. }
        | Refusal::LedgerBehind
        | Refusal::Restored => here(No::NotHere),
        Refusal::Busy { .. }
        | Refusal::Failed { .. }
        | Refusal::Waiting
        | Refusal::ChangesHands { .. }
        | Refusal::AwaitingApproval { .. } => everywhere(No::Unclear),
        Refusal::TooManyAttempts { .. }
        | Refusal::InviteOutdated
        | Refusal::NetworkNotAllowed
        | Refusal::NameNotAllowed { .. }
        | Refusal::NameUnlisted { .. }
        | Refusal::HostNotAllowed { .. }
        | Refusal::NoPattern
        | Refusal::OtherMachine
        | Refusal::TooManyWaiting
        | Refusal::InboxFull { .. }
        | Refusal::BeyondCeiling { .. }
        | Refusal::NameOfAnother { .. }
        | Refusal::BadProof
        | Refusal::NoChallenge
        | Refusal::BadRequest
        | Refusal::BadBinding
        | Refusal::KeyRevoked
        | Refusal::KeyLeft
        | Refusal::Suspended { .. }
        | Refusal::NotAdmitted
        | Refusal::AwayTooLong
        | Refusal::CounterConflict { .. }
        | Refusal::NotPlaced { .. }
        | Refusal::NotPermitted { .. }
        | Refusal::WeakKeyExchange
        | Refusal::NotAnOperator
        | Refusal::LedgerRefuses { .. }
        | Refusal::NotFound { .. }
        | Refusal::Malformed { .. } => everywhere(No::Clear),
    }
}

/// What the world says beside the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// Of the time that somebody has for a person's yes.
    pub left: Duration,
    /// Since it was asked.
    pub round: Duration,
    /// The keys in the folder were shown to nobody.
    pub unused: bool,
    pub around: Around,
}

/// What else came of asking each gateway in turn, beside what is told of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Around {
    /// One could not be asked, or wants to be asked later, and none spoke for all of them.
    pub silent: bool,
    /// One was asked, and its answer was lost: it may have let this machine in.
    pub unsure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    ComeBack,
    /// Asks again. Who it is that waits is told once.
    Ask {
        after: Duration,
        tell: bool,
    },
    /// Still waits, and this run has no more time.
    Leave {
        tell: bool,
    },
    GiveUp {
        /// Nothing is left behind that is of no use any more.
        wipe: bool,
        /// It waited, and its invite is over: the next code is another one; the node key may stay.
        in_vain: bool,
    },
}

impl Joining {
    pub(super) const fn begin(fresh: bool, waits: bool) -> Self {
        let heard = if waits { Heard::Waits { told: false } } else { Heard::Nothing };
        Self { fresh, heard, backoff: Backoff::new() }
    }

    /// How long the gateway may keep it waiting; nothing if it is not known that it must wait.
    pub(super) fn patience(&self, left: Duration) -> Option<Seconds> {
        self.waits().then(|| ROUND.min(Seconds(left.as_secs())))
    }

    const fn waits(&self) -> bool {
        matches!(self.heard, Heard::Waits { .. })
    }

    pub(super) fn step(mut self, event: Event, moment: Moment) -> (Self, Action) {
        if moment.around.unsure && self.heard == Heard::Nothing {
            self.heard = Heard::Unsure;
        }
        let action = match event {
            Event::Admitted => Action::ComeBack,
            Event::Waits => self.hear_that_it_waits(moment),
            Event::Lost => self.ask_later(None, moment),
            Event::Refused(no) if self.is_open(no, moment.around) => self.ask_later(Some(no), moment),
            Event::Refused(no) => self.give_up(Some(no), moment),
            Event::Failed => self.give_up(None, moment),
        };
        (self, action)
    }

    /// A clear no outranks that another gateway is silent, unless the silent one may have the right, or may have let this
    /// machine in.
    fn is_open(&self, no: No, around: Around) -> bool {
        around.silent && (no == No::NotHere || self.heard == Heard::Unsure && no != No::Denied)
    }

    fn ask_later(&mut self, no: Option<No>, moment: Moment) -> Action {
        match self.backoff.next(self.waits() && !moment.left.is_zero()) {
            Some(after) => Action::Ask { after, tell: false },
            None => self.give_up(no, moment),
        }
    }

    fn hear_that_it_waits(&mut self, moment: Moment) -> Action {
        let (knew, tell) = (self.waits(), self.heard != Heard::Waits { told: true });
        (self.heard, self.backoff) = (Heard::Waits { told: true }, Backoff::new());
        match knew {
            true if moment.left.is_zero() => Action::Leave { tell },
            true => Action::Ask { after: SHORTEST_ROUND.saturating_sub(moment.round), tell },
            // It has not told of itself yet: that it does at once.
            false => Action::Ask { after: Duration::ZERO, tell },
        }
    }

    fn give_up(&self, no: Option<No>, moment: Moment) -> Action {
        let over = match no {
            Some(No::Denied) => true,
            Some(No::NameTaken) => self.waits(),
            _ => false,
        };
        // Nothing was asked with the keys of this folder, or the first answer was a clear no: it is of no use.
        let refused = self.heard == Heard::Nothing && no.is_some_and(|no| no != No::Unclear);
        let wipe = over || self.fresh && (moment.unused || refused);
        Action::GiveUp { wipe, in_vain: self.waits() && no == Some(No::InviteOver) }
    }
}

/// Exponential backoff: longer with each failure in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Backoff {
    pause: Duration,
    attempt: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { pause: FIRST_PAUSE, attempt: 1 }
    }

    /// How long until the next attempt; nothing if there were enough, unless it goes on for ever.
    pub(super) fn next(&mut self, for_ever: bool) -> Option<Duration> {
        let pause = self.pause;
        if self.attempt >= ATTEMPTS && !for_ever {
            return None;
        }
        (self.attempt, self.pause) = (self.attempt.saturating_add(1), (pause * 2).min(LONGEST_PAUSE));
        Some(pause)
    }
}

#[cfg(test)]
mod tests;
