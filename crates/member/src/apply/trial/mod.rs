//! Commit or go back (commit-confirm): something new stays only if it is confirmed in time. Decides only; the engine
//! stages, writes, asks.
//!
//! What is applied is known here by digest alone, so that one machine serves manifests, trust and programs alike.
//!
//! Time is spent, not compared: each look adds what has passed since the last one, and a clock that was set back adds
//! nothing. So a trial ends although the clock is set back again and again, and a clock set forward ends it early, which
//! is the safe side. A start of the program costs a tenth of the time: who dies ten times under something new goes back.

use std::fmt;

use identity::id::Digest;
use identity::time::{Seconds, Timestamp};
use manifest::stored::Confirm;
use serde::{Deserialize, Serialize};

use crate::apply::unfit::{Missing, Unfit};

/// Something that can be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    pub digest: Digest,
    /// Of the part that can break a node. Items that agree in it take each other's place without a trial.
    pub runs: Digest,
}

/// What confirms an item, and in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrialTerms {
    pub confirm: Confirm,
    /// Only a connection that was made under the new state counts: trust, identity or program changed.
    pub fresh: bool,
    pub within: Seconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub item: Item,
    /// Of the head that names the item. Older heads offer nothing.
    pub head: u64,
    pub terms: TrialTerms,
    /// A person wants it: also what went back before, and with a time of its own.
    pub urged: bool,
}

/// Where a node stands. This is what lies on disk, but for the evidence of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Standing {
    /// The newest head that offered something.
    pub head: u64,
    /// What stays whatever happens; nothing at first.
    pub confirmed: Option<Item>,
    /// Confirmed before that; obeyed only if the other is damaged.
    pub previous: Option<Item>,
    pub trial: Option<Trial>,
    /// What went back last, until something newer is confirmed. Until then its access counts, too.
    pub failed: Option<Failed>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trial {
    pub item: Item,
    pub terms: TrialTerms,
    pub started: Timestamp,
    /// Time spent until `seen`.
    pub spent: Seconds,
    pub seen: Timestamp,
    pub consented: bool,
    /// Has to be found again after a start.
    #[serde(skip)]
    pub evidence: TrialEvidence,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TrialEvidence {
    pub reached: bool,
    /// The last word of the checks.
    pub checks: Option<Result<(), Unfit>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failed {
    pub item: Item,
    pub why: Why,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Why {
    /// Not confirmed in time: what was still waited for, in the words that lie on disk.
    Unconfirmed(String),
    /// What lies on the disk is not what was put there. It is taken again when it is offered again.
    Damaged,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconfirmed(missing) => write!(f, "not confirmed in time; still missing: {missing}"),
            Self::Damaged => f.write_str("damaged on this machine's disk"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Offered(Offer),
    /// mTLS with a gateway that is mandated, while this item was obeyed.
    Reached {
        under: Digest,
        fresh: bool,
    },
    Checked {
        under: Digest,
        found: Result<(), Unfit>,
    },
    Consented(Digest),
    Tick,
    Restarted,
    /// Its bytes are no longer on the disk.
    Damaged(Digest),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing that matters here.
    Ignored,
    Noted,
    /// It is obeyed already.
    Same,
    /// From an older head than one that was obeyed.
    Stale,
    OnTrial,
    /// In place at once: only access differs.
    Swapped,
    /// What was on trial is no longer wanted; what is confirmed is.
    Withdrawn,
    /// It went back before, and is not tried again by itself.
    NotAgain,
    /// What can break a node is what went back before; of the new one only the access counts.
    Guarded,
    Confirmed,
    WentBack,
}

impl Standing {
    /// What the node obeys.
    pub(crate) fn obeyed(&self) -> Option<Item> {
        self.trial.as_ref().map(|trial| trial.item).or(self.confirmed)
    }

    /// Narrows what is obeyed: it is newer, and went back.
    pub(crate) fn guard(&self) -> Option<Item> {
        self.failed.as_ref().filter(|_| self.trial.is_none()).map(|failed| failed.item)
    }

    /// What must stay on the disk.
    pub(crate) fn kept(&self) -> impl Iterator<Item = Digest> {
        let trial = self.trial.as_ref().map(|trial| trial.item);
        let failed = self.failed.as_ref().map(|failed| failed.item);
        [trial, self.confirmed, self.previous, failed].into_iter().flatten().map(|item| item.digest)
    }

    #[must_use]
    pub(crate) fn step(mut self, event: Event, now: Timestamp) -> (Self, Outcome) {
        if let Some(trial) = &mut self.trial {
            trial.spend(now);
        }
        let outcome = match event {
            Event::Offered(offer) => self.take(offer, now),
            Event::Reached { under, fresh } => self.note(under, |trial| {
                trial.evidence.reached |= fresh || !trial.terms.fresh;
            }),
            Event::Checked { under, found } => self.note(under, |trial| trial.evidence.checks = Some(found)),
            Event::Consented(under) => self.note(under, |trial| trial.consented = true),
            Event::Tick => self.decide(now),
            Event::Restarted => match &mut self.trial {
                Some(trial) => {
                    trial.evidence = TrialEvidence::default();
                    trial.spent = Seconds(trial.spent.0.saturating_add(trial.tenth()));
                    Outcome::Noted
                }
                None => Outcome::Ignored,
            },
            Event::Damaged(digest) => self.lose(digest, now),
        };
        (self, outcome)
    }

    /// Evidence counts for what is on trial, and in time.
    fn note(&mut self, under: Digest, note: impl FnOnce(&mut Trial)) -> Outcome {
        match &mut self.trial {
            Some(trial) if trial.item.digest == under && !trial.is_over() => {
                note(trial);
                Outcome::Noted
            }
            _ => Outcome::Ignored,
        }
    }

    fn take(&mut self, offer: Offer, now: Timestamp) -> Outcome {
        let Offer { item, head, terms, urged } = offer;
        if head < self.head {
            return Outcome::Stale;
        }
        self.head = head;
        let confirmed = self.confirmed.filter(|confirmed| confirmed.runs == item.runs);
        if let Some(confirmed) = confirmed {
            let tried = self.trial.take().is_some();
            self.failed = None;
            return if confirmed == item {
                if tried { Outcome::Withdrawn } else { Outcome::Same }
            } else {
                self.previous = self.confirmed.replace(item);
                Outcome::Swapped
            };
        }
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.item.runs == item.runs) {
            if urged {
                trial.terms.within = terms.within;
            }
            if trial.item == item {
                return Outcome::Same;
            }
            // An operator's word was about another digest.
            (trial.item, trial.consented) = (item, false);
            return Outcome::Swapped;
        }
        let tried = |failed: &&mut Failed| failed.item.runs == item.runs && failed.why != Why::Damaged;
        if let Some(failed) = self.failed.as_mut().filter(tried).filter(|_| !urged) {
            self.trial = None;
            let same = failed.item == item;
            failed.item = item;
            return if same { Outcome::NotAgain } else { Outcome::Guarded };
        }
        // Against what is confirmed, also if something else was on trial.
        self.trial = Some(Trial::begin(item, terms, now));
        Outcome::OnTrial
    }

    fn decide(&mut self, now: Timestamp) -> Outcome {
        let Some(trial) = &self.trial else {
            return Outcome::Ignored;
        };
        let missing = trial.missing();
        if trial.is_over() {
            let missing =
                if missing.is_empty() { "time to write it down".to_owned() } else { in_words(&missing).join("; ") };
            self.go_back(Why::Unconfirmed(missing), now);
            Outcome::WentBack
        } else if missing.is_empty() {
            let item = trial.item;
            self.previous = self.confirmed.replace(item);
            (self.trial, self.failed) = (None, None);
            Outcome::Confirmed
        } else {
            Outcome::Ignored
        }
    }

    fn go_back(&mut self, why: Why, now: Timestamp) {
        if let Some(trial) = self.trial.take() {
            self.failed = Some(Failed { item: trial.item, why, at: now });
        }
    }

    fn lose(&mut self, digest: Digest, now: Timestamp) -> Outcome {
        let is = |item: &Option<Item>| item.is_some_and(|item| item.digest == digest);
        if is(&self.previous) {
            self.previous = None;
        }
        if self.trial.as_ref().is_some_and(|trial| trial.item.digest == digest) {
            self.go_back(Why::Damaged, now);
            return Outcome::WentBack;
        }
        match self.confirmed.filter(|item| item.digest == digest) {
            Some(item) => {
                self.confirmed = self.previous.take();
                // What is older might allow more.
                self.failed.get_or_insert(Failed { item, why: Why::Damaged, at: now });
                Outcome::WentBack
            }
            None => Outcome::Ignored,
        }
    }

    /// Must the disk hear of this? Evidence is found again, and time is written down by tenths.
    pub(crate) fn differs_from(&self, written: &Self) -> bool {
        let durable = |standing: &Self| {
            let mut standing = standing.clone();
            if let Some(trial) = &mut standing.trial {
                trial.evidence = TrialEvidence::default();
                trial.spent = Seconds(trial.spent.0 / trial.tenth());
                trial.seen = trial.started;
            }
            standing
        };
        durable(self) != durable(written)
    }
}

impl Trial {
    pub(crate) fn begin(item: Item, terms: TrialTerms, now: Timestamp) -> Self {
        let terms = TrialTerms { within: terms.within.max(Seconds(1)), ..terms };
        let evidence = TrialEvidence::default();
        Self { item, terms, started: now, spent: Seconds(0), seen: now, consented: false, evidence }
    }

    fn spend(&mut self, now: Timestamp) {
        self.spent = Seconds(self.spent.0.saturating_add(now.since(self.seen).0));
        self.seen = now;
    }

    fn tenth(&self) -> u64 {
        (self.terms.within.0 / 10).max(1)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.spent >= self.terms.within
    }

    /// By the clock as it was last seen.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.seen + Seconds(self.terms.within.0.saturating_sub(self.spent.0))
    }

    /// What is waited for, in words.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        in_words(&self.missing())
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.terms.confirm != Confirm::Offline && !self.evidence.reached {
            missing.push(Missing::Gateway);
        }
        match &self.evidence.checks {
            Some(Ok(())) => {}
            Some(Err(why)) => missing.push(Missing::Checks(why.clone())),
            None => missing.push(Missing::ChecksRun),
        }
        if self.terms.confirm == Confirm::Operator && !self.consented {
            missing.push(Missing::Operator);
        }
        missing
    }
}

fn in_words(missing: &[Missing]) -> Vec<String> {
    missing.iter().map(Missing::to_string).collect()
}

#[cfg(test)]
mod tests;
