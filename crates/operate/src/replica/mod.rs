//! The operator's own copy of the ledger: pulled from gateways, folded here, and looked at when none answers.

pub mod published;
pub(crate) mod kept;
pub mod roll;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ground::clock;
use ground::file::{self, FileError, Lock};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use ledger::damage::Damage;
use ledger::error::LedgerError;
use ledger::replicate::{self, NotTaken};
use ledger::store::Ledger;
use org::founding::Founding;
use org::state::State;
use wire::known::Known;

use crate::folder::{OperatorFolder, REPLICA};

#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("this home's copy of the ledger cannot be used")]
    Ledger(#[from] LedgerError),
    #[error("what the gateway handed over is not taken into this home's copy of the ledger")]
    NotTaken(#[from] NotTaken),
}

impl ReplicaError {
    pub fn is_full(&self) -> bool {
        match self {
            Self::Ledger(why) | Self::NotTaken(NotTaken::Ledger(why)) => why.is_full(),
            Self::File(_) | Self::NotTaken(_) => false,
        }
    }
}

/// A state, and how far the copy was written when it was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub state: Arc<State>,
    pub extent: (i64, i64),
}

/// Whoever holds it is the only command of this home that reads or writes the copy.
#[derive(Debug)]
pub(crate) struct Replica {
    pub state: State,
    pub ledger: Ledger,
    lock: Option<Lock>,
}

impl Replica {
    /// For who only looks: others may go on.
    #[must_use]
    pub(crate) fn unlocked(mut self) -> Self {
        self.lock = None;
        self
    }

    /// A copy that is damaged is made anew.
    pub(crate) fn open(folder: &OperatorFolder, known: &Known) -> Result<Self, ReplicaError> {
        Self::open_again(folder, known, None)
    }

    /// What was read before is not read again, if nothing was written since.
    pub(crate) fn open_again(
        folder: &OperatorFolder,
        known: &Known,
        read_before: Option<Read>,
    ) -> Result<Self, ReplicaError> {
        let (path, lock) = locked(folder)?;
        if let Some(Read { state, extent }) = read_before
            && let Ok((ledger, _)) = Ledger::open(&path)
            && ledger.extent()? == extent
        {
            let (mut state, now) = (Arc::unwrap_or_clone(state), clock::now());
            ledger.keep_time(&mut state, now);
            if state.is_due(now) {
                ledger.conclude(&mut state, now)?;
            }
            return Ok(Self { state, ledger, lock: Some(lock) });
        }
        let (ledger, state) = match read(&path, &known.founding) {
            Ok(read) => read,
            Err(ReplicaError::Ledger(why)) if why.is_beyond_repair() => begin(&path, known)?,
            Err(why) => return Err(why),
        };
        Ok(Self { state, ledger, lock: Some(lock) })
    }

    /// How many entries were new.
    pub(crate) fn take(&mut self, page: Vec<Envelope>) -> Result<usize, ReplicaError> {
        Ok(replicate::take(&self.ledger, &mut self.state, page, clock::now())?)
    }

    /// Is it known here that these chains fork?
    pub(crate) fn knows(&self, forks: &[PublicKey]) -> bool {
        forks.iter().all(|voice| self.state.judged.fold.forks.contains_key(voice))
    }

    /// A head that stands in no entry that is here; whoever hands it over has checked it.
    pub(crate) fn take_head(&mut self, head: &Envelope) -> Result<(), ReplicaError> {
        let now = clock::now();
        if self.state.has_object(head) || self.state.open_shown(head).is_none() {
            return Ok(());
        }
        self.ledger.add_object(head)?;
        self.ledger.keep_time(&mut self.state, now);
        // It was opened a moment ago.
        let _unread = self.state.take(head, now);
        self.conclude()
    }

    /// Steps to later signers that stand in no entry that is here: a gateway that may write none keeps them beside its chain.
    pub(crate) fn take_steps(&mut self, known: &Known) -> Result<(), ReplicaError> {
        let now = clock::now();
        // One that was written down in a run that was cut off has no first sight yet.
        let seen = |step: &Digest| self.state.replica.sights.contains_key(step);
        let steps = known.sights().keys().filter(|step| !seen(step)).filter_map(|step| known.step(*step));
        let lacking: Vec<&Envelope> = steps.map(|step| &step.envelope).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        self.ledger.keep_time(&mut self.state, now);
        for step in lacking {
            self.ledger.add_object(step)?;
            // This home has opened it before.
            let _unread = self.state.take(step, now);
        }
        self.ledger.keep_sights(&self.state.replica.sights)?;
        self.conclude()
    }

    /// What this home saw before its copy did counts from then.
    pub(crate) fn date_sights(&mut self, known: &Known) -> Result<(), ReplicaError> {
        let mut earlier = false;
        for (step, first) in known.sights() {
            if let Some(since) = self.state.replica.sights.get_mut(step).filter(|since| first < since) {
                *since = *first;
                self.ledger.date_sight(*step, *first)?;
                earlier = true;
            }
        }
        if earlier { self.conclude() } else { Ok(()) }
    }

    pub(crate) fn conclude(&mut self) -> Result<(), ReplicaError> {
        Ok(self.ledger.conclude(&mut self.state, clock::now())?)
    }
}

/// Where the copy lies.
pub(crate) fn path(folder: &OperatorFolder) -> PathBuf {
    folder.path(REPLICA).join("ledger.db")
}

fn locked(folder: &OperatorFolder) -> Result<(PathBuf, Lock), ReplicaError> {
    let inside = folder.path(REPLICA);
    file::make_private_folder(&inside)?;
    Ok((path(folder), Lock::wait(&inside.join("lock"))?))
}

/// The store alone, without what follows from its entries.
fn store(folder: &OperatorFolder, known: &Known) -> Result<(Ledger, Lock), ReplicaError> {
    let (path, lock) = locked(folder)?;
    let ledger = if path.exists() { Ledger::open(&path)?.0 } else { begin(&path, known)?.0 };
    Ok((ledger, lock))
}

fn read(path: &Path, founding: &Founding) -> Result<(Ledger, State), ReplicaError> {
    let (ledger, own) = Ledger::open(path)?;
    if own.id != founding.id {
        return Err(LedgerError::from(Damage::AnotherOrgs).into());
    }
    let state = ledger.state(&own, clock::now())?;
    Ok((ledger, state))
}

/// The signers whom this home follows already need not wait again.
fn begin(path: &Path, known: &Known) -> Result<(Ledger, State), ReplicaError> {
    remove(path);
    let ledger = Ledger::create(path, &known.founding)?;
    ledger.keep_sights(&known.followed())?;
    let state = ledger.state(&known.founding, clock::now())?;
    Ok((ledger, state))
}

pub(crate) fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        // What is not there need not go.
        let _ = std::fs::remove_file(file);
    }
}
