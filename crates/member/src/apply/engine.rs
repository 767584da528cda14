//! The engine: takes what was verified and offered, puts it on trial, and keeps it or goes back.
//!
//! Order of writes, in every change: what is offered is put on the shelf; then the record is replaced; then the link is
//! moved; then what is no longer kept is removed. Each step is on the disk before the next begins.
//!
//! Recovery: the record decides, and the link follows. Killed before the record was replaced: the old state, with
//! something on the shelf that nobody names. Killed after it: the new state, and the link is moved at the next start.
//! There is nothing between, since the record is one file that is replaced as a whole. A trial that is found at a start
//! goes on, if it has time left.
//!
//! If the disk takes no record, nothing new is taken and nothing is confirmed; going back happens all the same, and is
//! written down as soon as the disk allows it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::file::FileError;
use identity::causes::describe;
use identity::id::Digest;
use identity::time::{Seconds, Timestamp};
use manifest::stored::{Access, BadManifest, Manifest, Runs};
use tokio::task::JoinSet;

use crate::apply::probe;
use crate::apply::record::{self, Found};
use crate::apply::stage::{FOLDER, Kept, Shelf, StageError};
use crate::apply::trial::{Event, Item, Offer, Outcome, Standing, Trial, TrialTerms};
use crate::apply::unfit::Unfit;
use crate::apply::view::{self, ApplyView};

/// Checks that failed are made again after this time, and those that passed while something else is waited for.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(2);
const AGAIN_AFTER_A_PORT: Duration = Duration::from_secs(1);
const AGAIN_AFTER_SUCCESS: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("what was offered cannot be taken")]
    Manifest(#[from] BadManifest),
    #[error("what was offered cannot be put on the disk; nothing was changed")]
    Stage(#[from] StageError),
    #[error("where this node stands cannot be written down; it is tried again")]
    Record(#[source] FileError),
}

/// Bytes that a verified head names for this node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered<'a> {
    pub digest: Digest,
    pub bytes: &'a [u8],
    pub head: u64,
    /// A person asks for it: what went back is tried again, within this time or what the manifest says.
    pub urged: Option<Urge>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Urge {
    pub within: Option<Seconds>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    shelf: Shelf,
    standing: Standing,
    /// What the disk says; nothing if it is of no use.
    written: Option<Standing>,
    /// All that is kept and could be read.
    manifests: BTreeMap<Digest, Arc<Manifest>>,
    checks: JoinSet<(Digest, Result<(), Unfit>)>,
    ended: Option<(Digest, Result<(), Unfit>)>,
    /// Of these, not before then.
    next_checks: Option<(Digest, Instant)>,
    checking: Option<Digest>,
    /// The link could not be moved yet.
    behind: bool,
    /// The disk refuses something at present.
    trouble: Option<String>,
    /// What was found damaged at the start.
    notice: Option<String>,
    /// Why other nodes do not reach this one where the manifest says.
    unreached: Option<String>,
}

impl Engine {
    /// Takes up what lies on the disk, whatever happened before.
    pub(crate) fn open(scope: &Path, now: Timestamp) -> Result<Self, ApplyError> {
        let shelf = Shelf::open(scope.join(FOLDER))?;
        let (standing, notice) = recovered(&shelf, now)?;
        let mut engine = Self {
            shelf,
            written: notice.is_none().then(|| standing.clone()),
            standing,
            manifests: BTreeMap::new(),
            checks: JoinSet::new(),
            ended: None,
            next_checks: None,
            checking: None,
            behind: false,
            trouble: None,
            notice,
            unreached: None,
        };
        if let Some(notice) = &engine.notice {
            tracing::error!("{notice}");
        }
        engine.load(now);
        engine.try_step(Event::Restarted, now);
        engine.try_step(Event::Tick, now);
        engine.sweep();
        Ok(engine)
    }

    /// What is obeyed now.
    pub(crate) fn current(&self) -> Option<&Manifest> {
        self.standing.obeyed().and_then(|item| self.manifests.get(&item.digest)).map(Arc::as_ref)
    }

    /// Its digest. Whoever begins something under it says so in `reached`.
    pub(crate) fn obeyed(&self) -> Option<Digest> {
        self.standing.obeyed().map(|item| item.digest)
    }

    /// Who may call what here now.
    pub(crate) fn access(&self) -> Tables {
        let items = [self.standing.obeyed(), self.standing.guard()];
        let read = |item: Item| self.manifests.get(&item.digest).cloned();
        let tables: Option<Vec<_>> = items.into_iter().flatten().map(read).collect();
        // One that cannot be read permits nothing.
        Tables { tables: tables.filter(|_| self.standing.obeyed().is_some()).unwrap_or_default() }
    }

    pub(crate) const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Something that is kept.
    pub(crate) fn kept(&self, digest: Digest) -> Option<Arc<Manifest>> {
        self.manifests.get(&digest).cloned()
    }

    /// What need not be sent again.
    pub(crate) fn have(&self) -> Vec<Digest> {
        self.manifests.keys().copied().collect()
    }

    /// The bytes of something that is kept.
    pub(crate) fn bytes_of(&self, digest: Digest) -> Option<Vec<u8>> {
        self.shelf.get(digest).ok().map(|kept| kept.bytes)
    }

    /// Does something on trial want a connection that was made under it?
    pub(crate) fn wants_new_line(&self) -> bool {
        self.standing.trial.as_ref().is_some_and(|trial| trial.terms.fresh && !trial.evidence.reached)
    }

    pub(crate) fn is_on_trial(&self) -> bool {
        self.standing.trial.is_some()
    }

    pub(crate) fn view(&self) -> ApplyView {
        let problems: Vec<_> = self.notice.iter().chain(&self.trouble).cloned().collect();
        view::of(&self.standing, (!problems.is_empty()).then(|| problems.join("; ")))
    }

    /// Takes what a verified head names. Refused with an error, it has changed nothing and may be offered again.
    pub(crate) fn offer(&mut self, offered: Offered<'_>, now: Timestamp) -> Result<Outcome, ApplyError> {
        let manifest = Manifest::read(offered.bytes, offered.digest)?;
        let confirmed = self.standing.confirmed.and_then(|item| self.manifests.get(&item.digest));
        let offer = offer_of(&manifest, confirmed.map(Arc::as_ref), offered);
        let wanted = self.standing.clone().step(Event::Offered(offer), now).0;
        if wanted.kept().any(|digest| digest == offered.digest) {
            self.shelf.put(&manifest, offered.bytes, offered.digest)?;
            self.manifests.insert(offered.digest, Arc::new(manifest));
        }
        let outcome = self.step(Event::Offered(offer), now);
        if outcome.is_err() {
            self.sweep();
        }
        let outcome = outcome?;
        self.look(now);
        Ok(outcome)
    }

    /// A mandated gateway was spoken to over mTLS while `under` was obeyed; `fresh`: over a connection made since.
    pub(crate) fn reached(&mut self, under: Digest, fresh: bool, now: Timestamp) -> Result<Outcome, ApplyError> {
        if self.behind {
            return Ok(Outcome::Ignored);
        }
        let noted = self.step(Event::Reached { under, fresh }, now)?;
        let looked = self.look(now);
        Ok(if looked == Outcome::Ignored { noted } else { looked })
    }

    /// An operator's word, verified by the caller, that this item shall stay.
    pub(crate) fn consent(&mut self, to: Digest, now: Timestamp) -> Result<Outcome, ApplyError> {
        let noted = self.step(Event::Consented(to), now)?;
        let looked = self.look(now);
        Ok(if looked == Outcome::Ignored { noted } else { looked })
    }

    /// Where others find this node is a check of every trial.
    pub(crate) fn note_unreached(&mut self, why: Option<String>) {
        self.unreached = why;
    }

    /// Does what is due: begins checks, hears of those that ended, confirms, goes back. Never waits. Needs a runtime.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Outcome {
        self.look(now)
    }

    /// When `tick` has something to do next; nothing if only an offer changes anything.
    pub(crate) fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let soon = now + Seconds(1);
        if self.behind || self.is_unwritten(&self.standing) {
            return Some(soon);
        }
        let trial = self.standing.trial.as_ref()?;
        let checks = match self.next_checks {
            _ if !self.checks.is_empty() => trial.deadline(),
            Some((_, at)) => now + Seconds(at.saturating_duration_since(Instant::now()).as_secs() + 1),
            None => soon,
        };
        Some(checks.min(trial.deadline()).max(soon))
    }

    /// Ends when running checks have ended, so that `tick` can hear of it at once; never if none run. May be dropped.
    pub(crate) async fn checks_ended(&mut self) {
        match self.checks.join_next().await {
            Some(ended) => self.ended = ended.ok(),
            None => std::future::pending().await,
        }
    }

    fn look(&mut self, now: Timestamp) -> Outcome {
        if self.behind {
            self.follow();
        }
        let ended = self.ended.take().or_else(|| self.checks.try_join_next().and_then(Result::ok));
        if let Some((under, found)) = ended {
            let (found, wait) = match (found, &self.unreached) {
                (Ok(()), None) => (Ok(()), AGAIN_AFTER_SUCCESS),
                (Ok(()), Some(why)) => (Err(Unfit::Unreached(why.clone())), AGAIN_AFTER_A_PORT),
                (Err(why), _) => (Err(why), AGAIN_AFTER_FAILURE),
            };
            self.next_checks = Some((under, Instant::now() + wait));
            if !self.behind {
                self.try_step(Event::Checked { under, found }, now);
            }
        }
        let outcome = self.try_step(Event::Tick, now);
        self.begin_checks();
        outcome
    }

    fn begin_checks(&mut self) {
        let under = self.standing.trial.as_ref().map(|trial| trial.item.digest);
        if self.checking != under {
            // Dropped, they end.
            (self.checks, self.checking, self.next_checks) = (JoinSet::new(), under, None);
        }
        let Some(under) = under else {
            return;
        };
        let early = self.next_checks.is_some_and(|(of, at)| of == under && Instant::now() < at);
        let Some(manifest) = self.manifests.get(&under).filter(|_| !early && !self.behind) else {
            return;
        };
        if self.checks.is_empty() {
            let (checks, files) = (manifest.runs.checks.clone(), self.shelf.files(under));
            self.checks.spawn(async move { (under, probe::run(checks, files).await) });
        }
    }

    fn is_unwritten(&self, standing: &Standing) -> bool {
        self.written.as_ref().is_none_or(|written| standing.differs_from(written))
    }

    /// A step that is taken again if it fails.
    fn try_step(&mut self, event: Event, now: Timestamp) -> Outcome {
        self.step(event, now).unwrap_or_else(|why| {
            self.trouble(&why);
            Outcome::Ignored
        })
    }

    fn step(&mut self, event: Event, now: Timestamp) -> Result<Outcome, ApplyError> {
        let passing = matches!(event, Event::Tick | Event::Restarted | Event::Damaged(_));
        let (next, outcome) = self.standing.clone().step(event, now);
        if self.is_unwritten(&next) {
            match record::save(&self.shelf.folder, &next).map_err(ApplyError::Record) {
                Ok(()) => (self.written, self.trouble) = (Some(next.clone()), None),
                // Time passes and things go back whatever the disk says; nothing else does.
                Err(why) if passing && outcome != Outcome::Confirmed => self.trouble(&why),
                Err(why) => return Err(why),
            }
        }
        self.tell(&next, outcome);
        let changed = self.standing.kept().ne(next.kept());
        self.standing = next;
        self.follow();
        if changed && !self.behind {
            self.sweep();
        }
        Ok(outcome)
    }

    fn trouble(&mut self, why: &dyn Error) {
        let trouble = describe(why);
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}");
        }
        self.trouble = Some(trouble);
    }

    fn tell(&mut self, next: &Standing, outcome: Outcome) {
        let obeyed = next.obeyed().map(|item| item.digest.to_string()).unwrap_or_default();
        match (outcome, &next.failed) {
            (Outcome::WentBack, Some(failed)) => {
                tracing::error!(digest = %failed.item.digest, why = %failed.why, obeyed, "went back");
            }
            (Outcome::OnTrial, _) => tracing::info!(digest = obeyed, "on trial"),
            (Outcome::Confirmed, _) => tracing::info!(digest = obeyed, "confirmed"),
            (Outcome::Swapped, _) => tracing::info!(digest = obeyed, "swapped in place"),
            (Outcome::Withdrawn, _) => tracing::warn!(digest = obeyed, "what was on trial was withdrawn"),
            _ => {}
        }
        if matches!(outcome, Outcome::Confirmed | Outcome::Swapped) {
            self.notice = None;
        }
    }

    /// The link follows the record.
    fn follow(&mut self) {
        let obeyed = self.standing.obeyed().map(|item| item.digest);
        if self.shelf.pointed() == obeyed && !self.behind {
            return;
        }
        match self.shelf.point(obeyed) {
            Ok(()) => self.behind = false,
            Err(why) => {
                self.behind = true;
                self.trouble(&why);
            }
        }
    }

    fn sweep(&mut self) {
        // What the disk names is kept, too, until the disk names something else.
        let kept: Vec<Digest> = self.standing.kept().chain(self.written.iter().flat_map(Standing::kept)).collect();
        self.shelf.sweep(&kept);
        self.manifests.retain(|digest, _| kept.contains(digest));
    }

    /// Reads all that is kept; what cannot be read is lost, files that were changed are written again.
    fn load(&mut self, now: Timestamp) {
        let kept: Vec<Digest> = self.standing.kept().collect();
        for digest in kept {
            match self.shelf.get(digest) {
                Ok(Kept { manifest, bytes }) => {
                    if !self.shelf.is_whole(&manifest, digest) {
                        tracing::error!(%digest, "a delivered file was changed or is missing; all are written again");
                        if let Err(why) = self.shelf.put(&manifest, &bytes, digest) {
                            self.trouble(&why);
                        }
                    }
                    self.manifests.insert(digest, Arc::new(manifest));
                }
                Err(why) => {
                    tracing::error!(%digest, why = describe(&why), "what lies on the disk is damaged");
                    self.try_step(Event::Damaged(digest), now);
                }
            }
        }
    }
}

/// The record, or what can be made of the rest without one.
fn recovered(shelf: &Shelf, now: Timestamp) -> Result<(Standing, Option<String>), ApplyError> {
    let why = match record::load(&shelf.folder).map_err(StageError::File)? {
        Found::Standing(standing) => return Ok((*standing, None)),
        Found::Nothing if shelf.pointed().is_none() => return Ok((Standing::default(), None)),
        Found::Nothing => "it is missing".to_owned(),
        Found::Damaged(why) => why,
    };
    // What the link names was verified once, but nobody knows whether it was confirmed: so it is on trial.
    let trial = shelf.pointed().and_then(|digest| {
        let Kept { manifest, .. } = shelf.get(digest).ok()?;
        let item = Item { digest, runs: digest_of(&manifest.runs) };
        Some(Trial::begin(item, terms(&manifest.runs, None, None), now))
    });
    let then = if trial.is_some() {
        "what was obeyed last is on trial again"
    } else {
        "nothing is obeyed until the next sync"
    };
    let problem = format!("the record `{}/trial.json` cannot be used ({why}); {then}", shelf.folder.display());
    Ok((Standing { trial, ..Standing::default() }, Some(problem)))
}

/// What is decided by: the manifest that was read from the offered bytes, against the confirmed one.
pub(super) fn offer_of(manifest: &Manifest, confirmed: Option<&Manifest>, offered: Offered<'_>) -> Offer {
    let terms = terms(&manifest.runs, confirmed.map(|confirmed| &confirmed.runs), offered.urged);
    let item = Item { digest: offered.digest, runs: digest_of(&manifest.runs) };
    Offer { item, head: offered.head, terms, urged: offered.urged.is_some() }
}

/// An open connection says nothing about other gateways than the one at its end.
fn terms(runs: &Runs, confirmed: Option<&Runs>, urged: Option<Urge>) -> TrialTerms {
    let within = urged.and_then(|urge| urge.within).unwrap_or(runs.apply.deadline);
    let fresh = confirmed.is_none_or(|confirmed| confirmed.gateways != runs.gateways);
    TrialTerms { confirm: runs.apply.confirm, fresh, within }
}

fn digest_of(runs: &Runs) -> Digest {
    Digest::of(&serde_json::to_vec(runs).unwrap_or_default())
}

/// Access tables that all must permit. None at all: nobody is permitted anything.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    tables: Vec<Arc<Manifest>>,
}

impl Tables {
    /// What is obeyed comes first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Access> {
        self.tables.iter().map(|manifest| &manifest.access)
    }
}

#[cfg(test)]
mod tests;
