//! The one writer: takes jobs, runs many in one transaction, answers only after the disk has them.
//!
//! It holds the state from the first change to the commit: nobody reads what the disk does not have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ground::clock;
use identity::envelope::Envelope;
use identity::head::{Cut, Head};
use identity::id::{Correlation, Digest, InviteId, OrgId};
use identity::key::Sign;
use identity::time::{Seconds, Timestamp};
use org::effect::Unfit;
use org::entry::{Action, Cause, SignedEntry};
use org::founding::Founding;
use org::frontier::Tip;
use org::grant::Granted;
use org::refusal::Refusal;
use org::state::{State, Void};
use tokio::sync::{RwLock, oneshot};

use crate::answer::tips::{OwnVoice, Tips};
use crate::store::ledger::{Ledger, LedgerError};

/// Jobs that may wait, and jobs that share one commit.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;

/// What a batch came to: the gateway's word about its chain, if somebody wants it.
type Outcome = Result<Option<Envelope>, Refusal>;
type Finish = Box<dyn FnOnce(Outcome) + Send>;
const BUSY: Refusal = Refusal::Busy { retry_after: Seconds(1) };

type Job = Box<dyn FnOnce(&mut Desk<'_>) -> Finish + Send>;

/// Invites whose revocation is on its way.
#[derive(Debug, Default)]
pub struct Closing(Mutex<BTreeMap<InviteId, Instant>>);

impl Closing {
    const TIME: Duration = Duration::from_mins(1);

    fn close(&self, invite: InviteId) {
        let mut closing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closing.retain(|_, since| since.elapsed() < Self::TIME);
        closing.insert(invite, Instant::now());
    }

    fn is_closing(&self, invite: InviteId) -> bool {
        let closing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closing.get(&invite).is_some_and(|since| since.elapsed() < Self::TIME)
    }
}

/// A handle to the writer's thread.
#[derive(Debug)]
pub struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// When members were last seen. Never authority, so nobody waits until it is written: it goes with the next commit,
/// and one comes within a second.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<BTreeMap<Digest, Timestamp>>);

impl Sightings {
    /// True if it is the first that waits.
    pub fn note(&self, node_key: Digest, at: Timestamp) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(node_key, at);
        waiting.len() == 1
    }

    fn take(&self) -> BTreeMap<Digest, Timestamp> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a job may touch. Refuse first, change last: a job that changed something must not refuse any more.
pub struct Desk<'a> {
    pub state: &'a mut State,
    pub ledger: &'a Ledger,
    voice: &'a OwnVoice,
    behind: &'a AtomicBool,
    closing: &'a Closing,
    broken: Option<String>,
    /// Somebody is to be told how far the ledger is.
    wants_tip: bool,
    /// Operators changed something: the whole gateway judges by it from the commit on.
    wide: bool,
}

/// What the writer's thread has in hand.
pub struct Scribe {
    pub ledger: Ledger,
    pub founding: Founding,
    pub state: Arc<RwLock<State>>,
    pub tips: Arc<Tips>,
    /// Shown a future that it does not have: nothing of its own is written any more.
    pub behind: Arc<AtomicBool>,
    pub closing: Arc<Closing>,
    pub sightings: Arc<Sightings>,
    /// Called after a commit that changed what operators decide.
    pub take_effect: Box<dyn Fn(&State) + Send>,
}

impl std::fmt::Debug for Scribe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scribe")
    }
}

impl Writer {
    pub fn start(scribe: Scribe) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("ledger".to_owned());
        let thread = thread.spawn(move || scribe.write_until_closed(&receiver))?;
        Ok(Self { jobs: Some(sender), thread: Some(thread) })
    }

    /// Runs a job; the answer comes when it is durable.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Refusal>> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move |desk| {
            let result = job(desk);
            Box::new(move |committed: Outcome| {
                let _ = sender.send(committed.and(result));
            })
        }));
        receiver
    }

    fn send(&self, job: Job) {
        // A full queue or a dead writer drops the job, and with it the sender: the caller sees that.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.try_send(job);
        }
    }

    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.submit(job).await.unwrap_or(Err(BUSY))
    }

    /// Runs a job and says how far the ledger is once it is durable: one signature for all that were written with it.
    pub async fn run_for_tip<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(T, Envelope), Refusal> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move |desk| {
            let result = job(desk);
            desk.wants_tip |= result.is_ok();
            Box::new(move |committed: Outcome| {
                let told = committed.and_then(|tip| Ok((result?, tip.ok_or(Refusal::LedgerBehind)?)));
                let _ = sender.send(told);
            })
        }));
        receiver.await.unwrap_or(Err(BUSY))
    }
}

impl Drop for Writer {
    /// Everything that was taken is written before the process ends.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Scribe {
    fn write_until_closed(&self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)).collect();
            let mut finishes = Vec::with_capacity(batch.len());
            let outcome = self.write_batch(batch, &mut finishes);
            for finish in finishes {
                finish(outcome.clone().map_err(|why| Refusal::Failed { why }));
            }
        }
    }

    fn write_batch(&self, batch: Vec<Job>, finishes: &mut Vec<Finish>) -> Result<Option<Envelope>, String> {
        let mut state = self.state.blocking_write();
        let outcome = self.run_and_commit(batch, &mut state, finishes);
        match outcome {
            Ok(done) => {
                if done.wide {
                    (self.take_effect)(&state);
                }
                // A gateway that is behind vouches for nothing, and an error of the key is nobody's loss: who waits
                // for the tip is told that there is none.
                let vouches = done.wants_tip && !self.behind.load(Ordering::Relaxed);
                Ok(vouches.then(|| self.tips.tip(&state, clock::now()).ok()).flatten())
            }
            Err(why) => {
                tracing::error!(%why, "the ledger could not be written; nothing of it was acknowledged");
                self.ledger.roll_back();
                // What memory ran ahead of the disk is forgotten. If that cannot be, nothing more may be said.
                match self.ledger.state(&self.founding) {
                    Ok(fresh) => *state = fresh,
                    Err(why) => {
                        tracing::error!(%why, "the ledger cannot be read either: stopping");
                        std::process::exit(1);
                    }
                }
                Err(why)
            }
        }
    }

    fn run_and_commit(&self, batch: Vec<Job>, state: &mut State, finishes: &mut Vec<Finish>) -> Result<Done, String> {
        self.ledger.begin().map_err(|why| describe(&why))?;
        for (node_key, at) in self.sightings.take() {
            self.ledger.log_seen(node_key, at).map_err(|why| describe(&why))?;
        }
        let mut desk = Desk {
            state,
            ledger: &self.ledger,
            voice: self.tips.voice(),
            behind: &self.behind,
            closing: &self.closing,
            broken: None,
            wants_tip: false,
            wide: false,
        };
        for job in batch {
            finishes.push(job(&mut desk));
            if let Some(why) = desk.broken {
                return Err(why);
            }
        }
        let done = Done { wide: desk.wide, wants_tip: desk.wants_tip };
        self.ledger.commit().map_err(|why| describe(&why))?;
        Ok(done)
    }
}

/// What a batch did.
#[derive(Debug, Clone, Copy)]
struct Done {
    /// Operators changed something.
    wide: bool,
    wants_tip: bool,
}

fn describe(why: &LedgerError) -> String {
    let source = std::error::Error::source(why).map(|source| format!(": {source}"));
    format!("{why}{}", source.unwrap_or_default())
}

impl Desk<'_> {
    /// Takes operators' entries: all or none.
    pub fn append(&mut self, org: OrgId, entries: Vec<Envelope>) -> Result<(), Refusal> {
        let refuses = |why: String| Refusal::LedgerRefuses { why };
        let opened: Result<Vec<SignedEntry>, _> =
            entries.into_iter().map(|envelope| SignedEntry::open(org, envelope)).collect();
        let opened = opened.map_err(|why| refuses(why.to_string()))?;
        let mut trial = self.state.clone();
        for signed in &opened {
            trial.check_follows(signed).map_err(|why| refuses(why.to_string()))?;
            trial.apply(signed).map_err(|why| refuses(why.to_string()))?.map_err(|why| refuses(why.to_string()))?;
        }
        self.check_cuts(&opened)?;
        self.wide = true;
        for signed in &opened {
            // The trial run took each of them; so does this one.
            let _ = self.state.apply(signed);
            self.keep(|desk| desk.ledger.append(desk.state, signed))?;
        }
        Ok(())
    }

    /// An invite is cut where no machine that it let in is cut off with it. If machines joined meanwhile, the operator
    /// looks again; until then nobody else comes in, or whoever holds the code could put it off for ever.
    fn check_cuts(&self, entries: &[SignedEntry]) -> Result<(), Refusal> {
        for signed in entries {
            let Action::HeadPublish { head, cause: Cause::InviteRevoke { invite } } = &signed.entry.action else {
                continue;
            };
            let head: Option<Head> = head.peek(Some(self.state.org)).ok();
            let cuts = head.into_iter().flat_map(|head| head.revocations.invites).filter(|cut| cut.invite == *invite);
            let seen = cuts.flat_map(|cut| cut.seen).filter(|at| at.author == self.voice.author).map(|at| at.seq).max();
            let record = self.state.invite(*invite).map(|(_, record)| record);
            let spends = record.into_iter().flat_map(|record| record.spent.values().flatten());
            if spends.into_iter().any(|spend| spend.by.author == self.voice.author && Some(spend.by.seq) > seen) {
                self.closing.close(*invite);
                let why = "machines joined meanwhile: look again, and revoke the invite from there".to_owned();
                return Err(Refusal::LedgerRefuses { why });
            }
        }
        Ok(())
    }

    /// Is this invite about to be revoked?
    pub fn is_closing(&self, invite: InviteId) -> bool {
        self.closing.is_closing(invite)
    }

    /// Writes an entry of this gateway's own about a node key.
    pub fn append_own(
        &mut self,
        (action, node_key): (Action, Digest),
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<(), Refusal> {
        self.append_about((action, node_key), (at, correlation), State::apply)
    }

    /// Writes down whom this gateway has just admitted.
    pub fn append_granted(
        &mut self,
        granted: &Granted,
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<(), Refusal> {
        let action = Action::NodeAdmit { admission: granted.envelope().clone() };
        let about = (action, granted.node_key().digest());
        self.append_about(about, (at, correlation), |state, signed| state.apply_granted(signed, granted))
    }

    fn append_about(
        &mut self,
        (action, node_key): (Action, Digest),
        when: (Timestamp, Correlation),
        apply: impl FnOnce(&mut State, &SignedEntry) -> Result<Result<(), Void>, Unfit>,
    ) -> Result<(), Refusal> {
        if self.behind.load(Ordering::Relaxed) {
            return Err(Refusal::LedgerBehind);
        }
        let own = (self.voice.author.clone(), &self.voice.key as &dyn Sign);
        let signed = SignedEntry::write(self.state.org, &self.state.frontier, own, when, action);
        let signed = signed.map_err(|why| Refusal::Failed { why: why.to_string() })?;
        let applied = apply(self.state, &signed).map_err(|why| why.to_string());
        if let Err(why) = applied.and_then(|effect| effect.map_err(|void| void.to_string())) {
            // The chain may have moved on in memory: forget the whole batch rather than guess.
            self.broken = Some(why.clone());
            return Err(Refusal::LedgerRefuses { why });
        }
        self.keep(|desk| desk.ledger.append_about(desk.state, &signed, node_key))
    }

    /// Is a word that this gateway once gave about its chain still so? One that is shown its own future, or another past
    /// than it has, was restored from an old copy: it stops issuing, for good.
    pub fn confirms(&mut self, shown: &Tip) -> Result<bool, Refusal> {
        let at = Cut { author: shown.author.clone(), epoch: shown.place.epoch, seq: shown.place.seq };
        if self.keep(|desk| desk.ledger.entry_digest(&at))? == Some(shown.place.digest) {
            return Ok(true);
        }
        self.keep(|desk| desk.ledger.mark_behind())?;
        if !self.behind.swap(true, Ordering::Relaxed) {
            tracing::error!(
                entry = at.seq,
                "this gateway told others of an entry that its ledger does not have: it was restored from an old copy. \
                 It issues nothing from now on; restore the newest copy of its folder"
            );
        }
        Ok(false)
    }

    /// Does something with the disk; if it fails, the whole batch is undone.
    pub fn keep<T>(&mut self, act: impl FnOnce(&Self) -> Result<T, LedgerError>) -> Result<T, Refusal> {
        act(self).map_err(|why| {
            let why = describe(&why);
            self.broken = Some(why.clone());
            Refusal::Failed { why }
        })
    }
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}
