//! The one writer: takes jobs, runs many in one transaction, answers only after the disk has them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use identity::envelope::Envelope;
use identity::id::{Correlation, OrgId};
use identity::key::{EdKey, Sign as _};
use identity::principal::Author;
use identity::time::Timestamp;
use org::effect::FIRST_EPOCH;
use org::entry::{Action, Entry, SignedEntry};
use org::founding::Founding;
use org::frontier::Tip;
use org::refusal::Refusal;
use org::state::State;
use tokio::sync::oneshot;

use crate::store::ledger::{Ledger, LedgerError};

/// Jobs that may wait, and jobs that share one commit.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;

type Finish = Box<dyn FnOnce(Result<(), Refusal>) + Send>;
type Job = Box<dyn FnOnce(&mut Desk<'_>) -> Finish + Send>;

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
    broken: Option<String>,
}

impl Writer {
    pub fn start(ledger: Ledger, founding: Founding, state: Arc<RwLock<State>>, voice: Arc<OwnVoice>) -> Self {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write_until_closed(&receiver, &ledger, &founding, &state, &voice));
        Self { jobs: Some(sender), thread: thread.ok() }
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

fn write_until_closed(
    jobs: &Receiver<Job>,
    ledger: &Ledger,
    founding: &Founding,
    state: &RwLock<State>,
    voice: &OwnVoice,
) {
    while let Ok(first) = jobs.recv() {
        let batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)).collect();
        let mut finishes = Vec::with_capacity(batch.len());
        let outcome = write_batch(batch, ledger, state, voice, &mut finishes);
        if let Err(why) = &outcome {
            tracing::error!(%why, "the ledger could not be written; nothing of it was acknowledged");
            ledger.roll_back();
            // What memory ran ahead of the disk is forgotten.
            match ledger.state(founding) {
                Ok(fresh) => *state.write().unwrap_or_else(PoisonError::into_inner) = fresh,
                Err(why) => tracing::error!(%why, "the ledger cannot be read either"),
            }
        }
        for finish in finishes {
            finish(outcome.clone().map_err(|why| Refusal::Failed { why }));
        }
    }
}

fn write_batch(
    batch: Vec<Job>,
    ledger: &Ledger,
    state: &RwLock<State>,
    voice: &OwnVoice,
    finishes: &mut Vec<Finish>,
) -> Result<(), String> {
    ledger.begin().map_err(|why| describe(&why))?;
    for job in batch {
        let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
        let mut desk = Desk { state: &mut state, ledger, voice, broken: None };
        finishes.push(job(&mut desk));
        if let Some(why) = desk.broken {
            return Err(why);
        }
    }
    ledger.commit().map_err(|why| describe(&why))
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
        for signed in &opened {
            // The trial run took each of them; so does this one.
            let _ = self.state.apply(signed);
            self.keep(|desk| desk.ledger.append(desk.state, signed))?;
        }
        Ok(())
    }

    /// Writes an entry of this gateway's own.
    pub fn append_own(&mut self, action: Action, at: Timestamp, correlation: Correlation) -> Result<(), Refusal> {
        let place = self.state.frontier.place_of(&self.voice.author).copied();
        let entry = Entry {
            author: self.voice.author.clone(),
            key: self.voice.key.public(),
            epoch: FIRST_EPOCH,
            seq: place.map_or(1, |place| place.seq + 1),
            previous: place.map(|place| place.digest),
            seen: self.state.frontier.clone(),
            at,
            correlation,
            action,
        };
        let failed = |why: String| Refusal::Failed { why };
        let envelope = Envelope::seal(Some(self.state.org), &entry).map_err(|why| failed(why.to_string()))?;
        let envelope = envelope.signed(&self.voice.key).map_err(|why| failed(why.to_string()))?;
        let signed = SignedEntry { digest: envelope.digest(), entry, envelope };
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
