//! The agent in numbers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use identity::time::Timestamp;
use wire::connect::CallError;
use wire::known::Known;

use crate::apply::view::ApplyView;
use crate::ask::error::AskError;
use crate::store::scope::{Scope, ScopeError};
use wire::http::metrics::text::{MetricKind, Page};

/// What the agent did and has. Written by it, read by whoever shows it.
#[derive(Debug, Default)]
pub struct Tally {
    pub check_ins: AtomicU64,
    pub renewals: AtomicU64,
    failures: [AtomicU64; REASONS.len()],
    svid_until: Moment,
    renew_at: Moment,
    checked_in_at: Moment,
    head: AtomicU64,
    fresh_until: Moment,
    trial_until: Moment,
    went_back_at: Moment,
}

/// A moment, or 0 while there is none.
#[derive(Debug, Default)]
struct Moment(AtomicI64);

impl Moment {
    fn set(&self, at: Option<Timestamp>) {
        self.0.store(at.map_or(0, Timestamp::unix), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Timestamp> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at != 0).map(Timestamp::from_unix)
    }
}

const REASONS: [&str; 9] = [
    "unreachable",
    "silent",
    "broken_off",
    "not_believed",
    "not_accepted",
    "refused",
    "unreadable",
    "revoked",
    "local",
];

fn reason(why: &AskError) -> &'static str {
    match why {
        AskError::Call(call) => match call {
            CallError::Unreachable { .. } | CallError::NotCarried { .. } => "unreachable",
            CallError::Silent { .. } => "silent",
            CallError::BrokenOff { .. } => "broken_off",
            CallError::NotAGateway { .. }
            | CallError::NotBelieved { .. }
            | CallError::NotInForce { .. }
            | CallError::ClocksApart { .. }
            | CallError::Tampered { .. }
            | CallError::Knowledge { .. } => "not_believed",
            CallError::NotAccepted { .. } => "not_accepted",
            CallError::Refused(_) => "refused",
            CallError::Unreadable { .. } => "unreadable",
            CallError::Setup(_) => "local",
        },
        AskError::OtherTime { .. } => "refused",
        AskError::BadAnswer(_)
        | AskError::Untimely { .. }
        | AskError::Knowledge(_)
        | AskError::Listing(_)
        | AskError::Manifest(_)
        | AskError::Withheld { .. } => "not_believed",
        AskError::OutOfTime => "silent",
        AskError::Tree(not_taken) => {
            if not_taken.is_lie() {
                "not_believed"
            } else {
                "unreadable"
            }
        }
        AskError::Revoked => "revoked",
        AskError::Scope(_)
        | AskError::NotJoined
        | AskError::OtherWish { .. }
        | AskError::Waits { .. }
        | AskError::WaitedInVain(_)
        | AskError::NoGateway
        | AskError::NoRandomness(_) => "local",
    }
}

impl Tally {
    /// What the disk says, before the first check-in.
    pub fn starts_from(&self, scope: &Scope) -> Result<(), ScopeError> {
        if let Some(known) = scope.known()? {
            self.knows(&known);
        }
        let node = scope.node()?.map(|node| node.principal());
        let svid = node.map(|principal| scope.seat(&principal).svid()).transpose()?.flatten();
        self.has_svid(svid.map(|svid| svid.not_after), None);
        Ok(())
    }

    pub fn failed(&self, why: &AskError) {
        let reason = reason(why);
        if let Some((_, count)) = REASONS.iter().zip(&self.failures).find(|(known, _)| **known == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn checked_in(&self, at: Timestamp) {
        self.check_ins.fetch_add(1, Ordering::Relaxed);
        self.checked_in_at.set(Some(at));
    }

    pub fn knows(&self, known: &Known) {
        self.head.store(known.head.head.version, Ordering::Relaxed);
        self.fresh_until.set(Some(known.head.head.fresh_until));
    }

    /// What this node should be, and how far that is.
    pub fn applies(&self, view: &ApplyView) {
        self.trial_until.set(view.trial.as_ref().map(|trial| trial.deadline));
        self.went_back_at.set(view.rolled_back.as_ref().map(|back| back.at));
    }

    pub fn has_svid(&self, until: Option<Timestamp>, renew_at: Option<Timestamp>) {
        self.svid_until.set(until);
        self.renew_at.set(renew_at);
    }

    pub fn show(&self, page: &mut Page) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (check_ins, renewals) = (count(&self.check_ins), count(&self.renewals));
        page.counter("freehold_agent_check_ins_total", "Check-ins that a gateway answered.", check_ins);
        page.counter("freehold_agent_renewals_total", "SVIDs of this node that were renewed.", renewals);
        let failures = REASONS.into_iter().zip(self.failures.iter().map(count));
        let help = "Check-ins that did not come off, by reason.";
        page.labeled(MetricKind::Counter, "freehold_agent_failures_total", help, "reason", failures);
        page.moment(
            "freehold_agent_last_check_in_timestamp_seconds",
            "When a gateway last answered a check-in.",
            self.checked_in_at.get(),
        );
        page.moment(
            "freehold_agent_svid_not_after_timestamp_seconds",
            "When the SVID in use ends.",
            self.svid_until.get(),
        );
        page.moment(
            "freehold_agent_next_renewal_timestamp_seconds",
            "When the SVID in use is due for renewal.",
            self.renew_at.get(),
        );
        let head = i64::try_from(count(&self.head)).unwrap_or(i64::MAX);
        page.gauge("freehold_agent_head_version", "The version of the head that this node goes by.", head);
        page.moment(
            "freehold_agent_head_fresh_until_timestamp_seconds",
            "Until when that head is fresh.",
            self.fresh_until.get(),
        );
        page.moment(
            "freehold_agent_trial_deadline_timestamp_seconds",
            "When what is on trial goes back unless it is confirmed; absent if nothing is.",
            self.trial_until.get(),
        );
        page.moment(
            "freehold_agent_went_back_timestamp_seconds",
            "When this node went back to what it was before; absent once something newer is confirmed.",
            self.went_back_at.get(),
        );
    }
}

/// The agent's whole page.
pub fn page(tally: &Tally) -> String {
    let mut page = Page::default();
    show_build(&mut page);
    tally.show(&mut page);
    page.into_text()
}

/// Which program this is.
pub fn show_build(page: &mut Page) {
    let help = "The version of this program; always 1.";
    page.labeled(MetricKind::Gauge, "freehold_build_info", help, "version", [(env!("CARGO_PKG_VERSION"), 1)]);
}
