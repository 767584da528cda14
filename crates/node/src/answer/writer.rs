//! The one writer: takes jobs, runs many in one transaction, answers only after the disk has them.
//!
//! It holds the state from the first change to the commit: nobody reads what the disk does not have.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::{Correlation, InviteId, OrgId};
use identity::key::{EdKey, Sign};
use identity::principal::Author;
use identity::time::Timestamp;
use org::entry::{Action, Cause, SignedEntry};
use org::founding::Founding;
use org::frontier::Tip;
use org::refusal::Refusal;
use org::state::State;
use tokio::sync::oneshot;

use crate::answer::halt::Halt;
use crate::store::ledger::{Ledger, LedgerError};

/// Jobs that may wait, and jobs that share one commit.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;

type Finish = Box<dyn FnOnce(Result<(), Refusal>) + Send>;
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

/// The gateway as an author: its name and its voice.
#[derive(Debug)]
pub struct OwnVoice {
    pub author: Author,
    pub key: EdKey,
}

/// What a job may touch. Refuse first, change last: a job that changed something must not refuse any more.
pub struct Desk<'a> {
    pub state: &'a mut State,
    pub ledger: &'a Ledger,
    voice: &'a OwnVoice,
    halt: &'a Halt,
    closing: &'a Closing,
    broken: Option<String>,
    /// Operators changed something: the whole gateway judges by it from the commit on.
    wide: bool,
}

/// What the writer's thread has in hand.
pub struct Scribe {
    pub ledger: Ledger,
    pub founding: Founding,
    pub state: Arc<RwLock<State>>,
    pub voice: Arc<OwnVoice>,
    /// Behind, or restored: nothing of its own is written any more.
    pub halt: Arc<Halt>,
    pub closing: Arc<Closing>,
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
        let job: Job = Box::new(move |desk| {
            let result = job(desk);
            Box::new(move |committed: Result<(), Refusal>| {
                let _ = sender.send(committed.and(result));
            })
        });
        // A full queue or a dead writer drops the job, and with it the sender: the caller sees that.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.try_send(job);
        }
        receiver
    }

    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let busy = Refusal::Busy { retry_after: identity::time::Seconds(1) };
        self.submit(job).await.unwrap_or(Err(busy))
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

    fn write_batch(&self, batch: Vec<Job>, finishes: &mut Vec<Finish>) -> Result<(), String> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let outcome = self.run_and_commit(batch, &mut state, finishes);
        match &outcome {
            Ok(true) => (self.take_effect)(&state),
            Ok(false) => {}
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
            }
        }
        outcome.map(|_| ())
    }

    /// True if operators changed something.
    fn run_and_commit(&self, batch: Vec<Job>, state: &mut State, finishes: &mut Vec<Finish>) -> Result<bool, String> {
        self.ledger.begin().map_err(|why| describe(&why))?;
        let mut desk = Desk {
            state,
            ledger: &self.ledger,
            voice: &self.voice,
            halt: &self.halt,
            closing: &self.closing,
            broken: None,
            wide: false,
        };
        for job in batch {
            finishes.push(job(&mut desk));
            if let Some(why) = desk.broken {
                return Err(why);
            }
        }
        let wide = desk.wide;
        self.ledger.commit().map_err(|why| describe(&why))?;
        if wide && let Err(why) = self.halt.look_again(&self.ledger) {
            tracing::error!(%why, "whether something holds the gateway back could not be read; as before");
        }
        Ok(wide)
    }
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

    /// Writes an entry of this gateway's own.
    pub fn append_own(&mut self, action: Action, at: Timestamp, correlation: Correlation) -> Result<(), Refusal> {
        self.halt.check()?;
        let own = (self.voice.author.clone(), &self.voice.key as &dyn Sign);
        let signed = SignedEntry::write(self.state.org, &self.state.frontier, own, (at, correlation), action);
        let signed = signed.map_err(|why| Refusal::Failed { why: why.to_string() })?;
        let applied = self.state.apply(&signed).map_err(|why| why.to_string());
        if let Err(why) = applied.and_then(|effect| effect.map_err(|void| void.to_string())) {
            // The chain may have moved on in memory: forget the whole batch rather than guess.
            self.broken = Some(why.clone());
            return Err(Refusal::LedgerRefuses { why });
        }
        self.keep(|desk| desk.ledger.append(desk.state, &signed))
    }

    /// Does something with the disk; if it fails, the whole batch is undone.
    pub fn keep<T>(&mut self, act: impl FnOnce(&Self) -> Result<T, LedgerError>) -> Result<T, Refusal> {
        act(self).map_err(|why| {
            let why = describe(&why);
            self.broken = Some(why.clone());
            Refusal::Failed { why }
        })
    }

    /// This gateway's signed word about its own chain.
    pub fn tip(&self, at: Timestamp) -> Result<Envelope, Refusal> {
        tip(self.state, self.voice, at)
    }
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

pub fn tip(state: &State, voice: &OwnVoice, at: Timestamp) -> Result<Envelope, Refusal> {
    let failed = |why: String| Refusal::Failed { why };
    let place = state.frontier.place_of(&voice.author).copied();
    let place = place.ok_or_else(|| failed("the gateway has no chain yet".to_owned()))?;
    let body = Tip { author: voice.author.clone(), place, at };
    let envelope = Envelope::seal(Some(state.org), &body).map_err(|why| failed(why.to_string()))?;
    envelope.signed(&voice.key).map_err(|why| failed(why.to_string()))
}
