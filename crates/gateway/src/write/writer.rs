//! The one writer (group commit): takes jobs, runs many in one transaction, answers only after the disk has them.
//!
//! It works on a state of its own. Others read a second one, which takes the same entries after the commit: nobody reads
//! what the disk does not have, and nobody waits for the disk who only reads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::time::Seconds;
use ledger::store::Ledger;
use org::founding::Founding;
use org::ledger::entry::Stamp;
use org::refusal::{Fault, Refusal};
use org::state::State;
use tokio::sync::{RwLock, oneshot};

use crate::limit::halt::Halt;
use crate::limit::tally::Tally;
use crate::write::observations::ObservationBuffer;
use crate::write::peers::Peers;
use crate::write::published::{Shelf, Staged};
use crate::write::tips::Tips;
use crate::write::told::Told;
use crate::write::transaction::{Batch, Broken, Closing, Transaction};

/// Jobs that may wait, and jobs that share one commit.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;
/// How long a batch waits for as many as the last one had: a commit costs the processor half as much as a join.
const LINGER: Duration = Duration::from_millis(2);

/// What a batch came to: the gateway's word about its chain, if somebody wants it.
type Outcome = Result<Option<Envelope>, Refusal>;
type Finish = Box<dyn FnOnce(Outcome) + Send>;
const BUSY: Refusal = Refusal::Busy { retry_after: Seconds(1) };

type Job = Box<dyn FnOnce(&mut Transaction<'_>) -> Finish + Send>;

/// A handle to the writer's thread.
#[derive(Debug)]
pub struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer's thread has in hand.
pub struct Scribe {
    pub ledger: Ledger,
    pub founding: Founding,
    /// What the ledger will say once the batch in hand is written.
    pub ahead: State,
    /// What it says: everybody else reads this.
    pub state: Arc<RwLock<State>>,
    pub tips: Arc<Tips>,
    /// Behind, or restored: nothing of its own is written any more.
    pub halt: Arc<Halt>,
    pub closing: Closing,
    pub observations: Arc<ObservationBuffer>,
    pub tally: Arc<Tally>,
    pub shelf: Arc<Shelf>,
    /// Other gateways wait for every entry.
    pub peers: Arc<Peers>,
    /// A map that was handed in, read before a head names it.
    pub staged: Staged,
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
        job: impl FnOnce(&mut Transaction<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Refusal>> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move |tx| {
            let result = job(tx);
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
        job: impl FnOnce(&mut Transaction<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.submit(job).await.unwrap_or(Err(BUSY))
    }

    /// Runs a job and says how far the ledger is once it is durable: one signature for all that were written with it.
    pub async fn run_for_tip<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Transaction<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(T, Envelope), Refusal> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move |tx| {
            let result = job(tx);
            tx.batch.wants_tip |= result.is_ok();
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
    fn write_until_closed(mut self, jobs: &Receiver<Job>) {
        let mut usual = 0;
        while let Ok(first) = jobs.recv() {
            let batch = gather(first, jobs, usual);
            usual = batch.len();
            let mut finishes = Vec::with_capacity(batch.len());
            let began = Instant::now();
            let outcome = self.write_batch(batch, &mut finishes);
            self.tally.committed(began.elapsed(), outcome.is_ok());
            for finish in finishes {
                finish(outcome.clone().map_err(|broken| Refusal::Failed { why: broken.fault }));
            }
        }
    }

    fn write_batch(&mut self, batch: Vec<Job>, finishes: &mut Vec<Finish>) -> Result<Option<Envelope>, Broken> {
        match self.run_and_commit(batch, finishes) {
            Ok(mut done) => {
                if done.wide {
                    self.shelf.bring_up(&self.ledger, &self.ahead, done.published.take());
                }
                let before = self.bring_forward(&done);
                if done.wide {
                    self.shelf.ring();
                }
                if !done.taken.is_empty() || done.observed {
                    self.peers.ring();
                }
                // Freed while those who were woken are answered already.
                drop(before);
                // A gateway that is behind vouches for nothing, and an error of the key is nobody's loss: who waits
                // for the tip is told that there is none.
                let vouches = done.wants_tip && self.halt.check().is_ok();
                Ok(vouches.then(|| self.tips.tip(&self.ahead, clock::now()).ok()).flatten())
            }
            Err(broken) => {
                tracing::error!(why = broken.why, "the ledger could not be written; nothing of it was acknowledged");
                self.ledger.roll_back();
                // It may have been read from what is undone.
                self.staged = Staged::default();
                // What memory ran ahead of the disk is forgotten. If that cannot be, nothing more may be said.
                match self.ledger.state(&self.founding, clock::now()) {
                    Ok(fresh) => {
                        self.ahead = fresh;
                        self.show(|_| {});
                    }
                    Err(why) => {
                        tracing::error!(%why, "the ledger cannot be read either: stopping");
                        std::process::exit(1);
                    }
                }
                Err(broken)
            }
        }
    }

    /// Gives readers what was committed. What they saw before, if it was replaced as a whole.
    fn bring_forward(&self, done: &Batch) -> Option<State> {
        if done.wide {
            return Some(self.show(&self.take_effect));
        }
        let mut state = self.state.blocking_write();
        if done.taken.iter().all(|taken| taken.apply(&mut state)) {
            return None;
        }
        drop(state);
        // Both copies began alike and took the same, so this cannot be; the one that is on disk is right.
        tracing::error!("the state that others read had gone astray");
        Some(self.show(|_| {}))
    }

    /// Readers wait only while one state takes the place of the other, and the gateway judges by it.
    fn show(&self, take_effect: impl FnOnce(&State)) -> State {
        let (fresh, told) = (self.ahead.clone(), Told::of(&self.ahead));
        let mut state = self.state.blocking_write();
        let before = std::mem::replace(&mut *state, fresh);
        self.shelf.tell(told);
        take_effect(&state);
        before
    }

    fn run_and_commit(&mut self, batch: Vec<Job>, finishes: &mut Vec<Finish>) -> Result<Batch, Broken> {
        self.ledger.begin()?;
        let reported = self.observations.write(&self.ledger)?;
        self.staged.forget_old();
        self.ledger.keep_time(&mut self.ahead, clock::now());
        let (state, staged) = (&mut self.ahead, &mut self.staged);
        let mut tx = Transaction::new(state, staged, &self.ledger, &self.tips, &self.halt, &self.closing);
        tx.batch.observed = reported;
        let correlation = random::correlation().map_err(|why| Broken::new(Fault::Randomness, &why))?;
        let when = Stamp { at: clock::now(), correlation };
        tx.turn(when.at)?;
        tx.go_over(when)?;
        for job in batch {
            finishes.push(job(&mut tx));
            if let Some(broken) = tx.batch.broken {
                return Err(broken);
            }
        }
        tx.go_over(when)?;
        let done = tx.batch;
        self.ledger.commit()?;
        if let Some(next) = &done.gone_over {
            self.tips.go_over(Arc::clone(next));
        }
        if done.wide
            && let Err(why) = self.halt.look_again(&self.ledger)
        {
            tracing::error!(%why, "whether something holds the gateway back could not be read; as before");
        }
        Ok(done)
    }
}

/// The jobs that share the next commit: all that wait, and, if there were more the last time, those that come within a
/// moment. Who is alone does not wait.
fn gather(first: Job, jobs: &Receiver<Job>, usual: usize) -> Vec<Job> {
    let mut batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)).collect();
    let until = Instant::now() + LINGER;
    while batch.len() < usual {
        match jobs.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Box::new(|_| Box::new(drop))
    }

    #[test]
    fn who_is_alone_does_not_wait_and_a_crowd_shares_a_commit() {
        let (sender, receiver) = sync_channel::<Job>(BATCH * 2);
        assert_eq!(gather(job(), &receiver, 1).len(), 1);
        let late = std::thread::spawn(move || {
            for _ in 0..BATCH * 2 {
                sender.send(job()).unwrap();
            }
        });
        late.join().unwrap();
        assert_eq!(gather(job(), &receiver, 8).len(), BATCH, "all that wait, up to the bound");
        assert_eq!(gather(job(), &receiver, BATCH).len(), BATCH);
        // Two are left, and nobody comes any more: it does not wait for ever.
        assert_eq!(gather(job(), &receiver, 8).len(), 3);
    }
}
