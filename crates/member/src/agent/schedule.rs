//! What the agent does next, and when: check-ins, backoff, renewals. Decides only; the agent asks, renews and tells.

use std::ops::Range;

use identity::time::{Seconds, Timestamp};

use crate::store::scope::Svid;

const LONGEST_WAIT: Seconds = Seconds(300);
/// While something is on trial, news are asked for this often.
const TRIAL_WAIT: Seconds = Seconds(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    /// It lets a gateway keep it waiting for news no longer than this.
    every: Seconds,
    /// Different on each node, so that they do not all come at once.
    jitter: u8,
    /// In a row.
    failures: u32,
    next_check_in: Option<Timestamp>,
    /// The gateway had nothing new, and did not wait.
    quiet: bool,
    /// A gateway does not take the SVID that this node has, though it is good by its time.
    svid_refused: bool,
    renew_at: Option<Timestamp>,
    /// Renewing would not help now.
    held_off: Range<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A moment has passed.
    Look(Look),
    /// What kept it from a gateway may be gone, or somebody does not want to wait.
    Roused,
    /// A gateway was heard, and `quiet` if it had nothing new and did not wait.
    Heard {
        quiet: bool,
    },
    /// What was offered is not believed: it is asked for again, and not without end.
    OfferRefused,
    Exchanged(Exchange),
    Failed,
    SvidRefused,
    /// By its node key, with another SVID.
    CameBack,
    /// From when until when the SVID is good that lies on the disk after an exchange, and whether that is a new one.
    SvidRead {
        good: Option<Range<Timestamp>>,
        renewed: bool,
    },
    /// A signer has stopped this machine: nothing is renewed meanwhile.
    Suspended {
        until: Timestamp,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// A static tree is read instead of asking gateways.
    pub tree: bool,
    /// Somebody waits for it.
    pub urged: bool,
}

/// How an exchange went that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exchange {
    pub tree: bool,
    /// Whoever stands still has nothing to take.
    pub frozen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Goes on with what it does.
    Nothing,
    Rest,
    Exchange,
}

impl Schedule {
    pub(super) const fn new(every: Seconds, jitter: u8) -> Self {
        let never = Timestamp::from_unix(0)..Timestamp::from_unix(0);
        Self {
            every,
            jitter,
            failures: 0,
            next_check_in: None,
            quiet: false,
            svid_refused: false,
            renew_at: None,
            held_off: never,
        }
    }

    /// As `step`, in place.
    pub(super) fn note(&mut self, event: Event, now: Timestamp) -> Action {
        let action;
        (*self, action) = self.clone().step(event, now);
        action
    }

    pub(super) fn step(mut self, event: Event, now: Timestamp) -> (Self, Action) {
        match event {
            Event::Look(look) => {
                let action = if look.urged || self.is_due(look, now) { Action::Exchange } else { Action::Rest };
                return (self, action);
            }
            Event::Failed => {
                self.failures = self.failures.saturating_add(1);
                self.next_check_in = Some(now + self.backoff());
            }
            Event::Roused => (self.failures, self.next_check_in) = (0, None),
            Event::Heard { quiet } => self.quiet = quiet,
            Event::OfferRefused => self.quiet = true,
            Event::Exchanged(exchange) => {
                // A gateway that does not wait is not asked without end, and a tree never waits.
                let pause = if exchange.tree || exchange.frozen { self.spread(self.every) } else { Seconds(1) };
                self.failures = 0;
                self.next_check_in = (self.quiet || exchange.tree).then(|| now + pause);
            }
            Event::SvidRefused => self.svid_refused = true,
            Event::CameBack => self.svid_refused = false,
            Event::SvidRead { good, renewed } => self.plan_renewal(good, renewed, now),
            Event::Suspended { until } => self.held_off = now..until,
        }
        (self, Action::Nothing)
    }

    fn is_due(&self, look: Look, now: Timestamp) -> bool {
        // A check-in that lies too far ahead was set before the clock was put back.
        let far = LONGEST_WAIT.max(self.every).times(2);
        let early = self.next_check_in.is_some_and(|at| now < at && at.since(now) <= far);
        let renews = !look.tree && self.failures == 0 && self.renew_at.is_none_or(|at| now >= at);
        !early || renews
    }

    /// How long it waits after its last failure. Exponential: longer each time, up to a bound.
    pub(super) fn backoff(&self) -> Seconds {
        let wait = Seconds(1_u64 << self.failures.min(9)).min(LONGEST_WAIT);
        self.spread(wait.min(self.every.max(Seconds(2))))
    }

    /// What is due again as soon as it was renewed comes from clocks that are apart: once in a while is enough then.
    fn plan_renewal(&mut self, good: Option<Range<Timestamp>>, renewed: bool, now: Timestamp) {
        let Some(good) = good else {
            self.renew_at = None;
            return;
        };
        let due = self.due_at(&good);
        if renewed && due <= now {
            let tenth = Seconds(good.end.since(good.start).0 / 10);
            self.held_off = now..now + tenth.max(self.every);
        }
        self.renew_at = Some(if self.held_off.contains(&now) { due.max(self.held_off.end) } else { due });
    }

    /// Half its life, a little earlier or later for each node.
    fn due_at(&self, good: &Range<Timestamp>) -> Timestamp {
        let life = good.end.since(good.start).0;
        good.start + Seconds(life * (45 + u64::from(self.jitter) % 11) / 100)
    }

    /// Is an SVID that is good from then until then to be renewed by now?
    pub(super) fn renews(&self, good: &Range<Timestamp>, now: Timestamp) -> bool {
        (self.due_at(good)..good.end).contains(&now) && !self.held_off.contains(&now)
    }

    pub(super) const fn svid_is_refused(&self) -> bool {
        self.svid_refused
    }

    pub(super) const fn renew_at(&self) -> Option<Timestamp> {
        self.renew_at
    }

    /// How long it keeps to a gateway that does not come first before it tries the first again.
    pub(super) fn keeps_to_another(&self) -> Seconds {
        self.spread(self.every.times(10))
    }

    /// How long a gateway may keep this node waiting: no longer than until something else is due.
    pub(super) fn patience(&self, usual: Seconds, wake: Option<Timestamp>, on_trial: bool, now: Timestamp) -> Seconds {
        let usual = self.spread(usual.min(self.every));
        let due = self.renew_at.into_iter().chain(wake).min();
        let until = due.map_or(usual, |due| due.since(now)).min(usual);
        if on_trial { until.min(TRIAL_WAIT) } else { until }
    }

    /// When SVIDs are renewed that should have more roots: within one check-in, different on each node.
    pub(super) fn reissue_at(&self, now: Timestamp) -> Timestamp {
        now + Seconds(self.every.0.saturating_mul(u64::from(self.jitter)) / 256)
    }

    /// A tenth earlier or later, different on each node.
    fn spread(&self, span: Seconds) -> Seconds {
        Seconds((span.0 * (90 + u64::from(self.jitter) % 21) / 100).max(1))
    }
}

/// From when until when it is good.
pub(super) const fn life(svid: &Svid) -> Range<Timestamp> {
    svid.not_before..svid.not_after
}

#[cfg(test)]
mod tests;
