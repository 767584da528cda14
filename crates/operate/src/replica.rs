//! The operator's own copy of the ledger: pulled from gateways, folded here, and looked at when none answers.

use std::path::Path;

use ground::clock;
use ground::file::{self, FileError, Lock};
use identity::envelope::{Envelope, Payload as _};
use identity::principal::Author;
use identity::signers::Recovery;
use ledger::error::LedgerError;
use ledger::replicate::{self, NotTaken};
use ledger::store::Ledger;
use org::entry::{Action, Entry};
use org::founding::Founding;
use org::frontier::Frontier;
use org::state::State;
use wire::control::{Answer, Call};

use crate::desk::{Desk, DeskError};
use crate::folder::OperatorFolder;
use crate::session::{OperateError, Session, ask_survey};

/// No backup carries it: gateways have it.
pub const FOLDER: &str = "replica";

/// A gateway that lacks more than this many pages is not mended by a home.
const MOST_PAGES: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("this home's copy of the ledger cannot be used")]
    Ledger(#[from] LedgerError),
    #[error("what the gateway handed over is not taken into this home's copy of the ledger")]
    NotTaken(#[from] NotTaken),
    #[error(
        "what this gateway has does not go on from this home's copy of the ledger: a chain has two branches, or it hides something"
    )]
    Parted,
    #[error("this gateway has an entry by which the recovery keys replaced the signers, before the delay is over here")]
    TooEarly,
}

/// Whoever holds it is the only command of this home that reads or writes the copy.
#[derive(Debug)]
pub struct Replica {
    pub state: State,
    pub ledger: Ledger,
    lock: Option<Lock>,
}

impl Replica {
    /// For who only looks: others may go on.
    #[must_use]
    pub fn unlocked(mut self) -> Self {
        self.lock = None;
        self
    }

    /// A copy that is damaged is made anew.
    pub fn open(folder: &OperatorFolder, founding: &Founding) -> Result<Self, ReplicaError> {
        let inside = folder.path(FOLDER);
        file::make_private_folder(&inside)?;
        let lock = Lock::wait(&inside.join("lock"))?;
        let path = inside.join("ledger.db");
        let (ledger, state) = match read(&path, founding) {
            Ok(read) => read,
            Err(ReplicaError::Ledger(why)) if why.is_beyond_repair() => begin(&path, founding)?,
            Err(why) => return Err(why),
        };
        Ok(Self { state, ledger, lock: Some(lock) })
    }

    /// The store alone, without what follows from its entries.
    pub(crate) fn store(folder: &OperatorFolder, founding: &Founding) -> Result<(Ledger, Lock), ReplicaError> {
        let inside = folder.path(FOLDER);
        file::make_private_folder(&inside)?;
        let lock = Lock::wait(&inside.join("lock"))?;
        let path = inside.join("ledger.db");
        let ledger = if path.exists() { Ledger::open(&path)?.0 } else { begin(&path, founding)?.0 };
        Ok((ledger, lock))
    }

    /// Begins anew, with nothing.
    fn forget(&mut self, folder: &OperatorFolder, founding: &Founding) -> Result<(), ReplicaError> {
        (self.ledger, self.state) = begin(&folder.path(FOLDER).join("ledger.db"), founding)?;
        Ok(())
    }

    fn take(&mut self, page: Vec<Envelope>) -> Result<(), ReplicaError> {
        Ok(replicate::take(&self.ledger, &mut self.state, page)?)
    }
}

fn read(path: &Path, founding: &Founding) -> Result<(Ledger, State), ReplicaError> {
    let (ledger, own) = Ledger::open(path)?;
    if own.id != founding.id {
        return Err(LedgerError::Damaged("it is another org's".to_owned()).into());
    }
    let state = ledger.state(&own)?;
    Ok((ledger, state))
}

fn is_full(why: &OperateError) -> bool {
    match why {
        OperateError::Replica(ReplicaError::Ledger(why) | ReplicaError::NotTaken(NotTaken::Ledger(why))) => {
            why.is_full()
        }
        _ => false,
    }
}

fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        // What is not there need not go.
        let _ = std::fs::remove_file(file);
    }
}

fn begin(path: &Path, founding: &Founding) -> Result<(Ledger, State), ReplicaError> {
    remove(path);
    Ok((Ledger::create(path, founding)?, State::of(founding)))
}

impl<D: Desk> Session<D> {
    /// This home's copy, with all that the gateway has.
    pub async fn replica(&mut self) -> Result<Replica, OperateError> {
        let founding = self.known.founding.clone();
        let mut replica = Replica::open(&self.folder, &founding)?;
        let mut anew = replica.state.frontier.parts_from(&self.survey.frontier);
        // What the operators gave up when they went on from an older copy is in the way here: then it is pulled anew, once.
        // Nothing else makes this home forget: a gateway may lie.
        let mut again = self.known.head.head.epoch.number > replica.state.epoch().number;
        while anew || !replica.state.frontier.covers_all(&self.survey.frontier) {
            if std::mem::take(&mut anew) {
                if !std::mem::take(&mut again) {
                    return Err(ReplicaError::Parted.into());
                }
                replica.forget(&self.folder, &founding)?;
            }
            let call = Call::Beyond { frontier: replica.state.frontier.clone() };
            let Answer::Beyond { entries, .. } = self.ask(call).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            if entries.iter().any(|entry| self.is_too_early(entry)) {
                return Err(ReplicaError::TooEarly.into());
            }
            let before = replica.state.frontier.clone();
            match replica.take(entries) {
                // Whoever says that there is more, and brings nothing new, is not asked for ever.
                Ok(()) => anew = replica.state.frontier == before,
                Err(ReplicaError::NotTaken(NotTaken::Unfit(_))) => anew = true,
                Err(why) => return Err(why.into()),
            }
        }
        if !self.desk.is_alone() {
            let (frontier, now) = (replica.state.frontier.clone(), clock::now());
            self.remember(|memory| (memory.pulled, memory.pulled_at) = (frontier, Some(now)))?;
        }
        Ok(replica)
    }

    /// An install by recovery that this home does not go by yet: its own delay counts.
    fn is_too_early(&self, entry: &Envelope) -> bool {
        let action = entry.peek::<Entry>(Some(self.known.org())).map(|entry| entry.action);
        let Ok(Action::SignersInstall { signers, .. }) = action else { return false };
        signers.kind() == Recovery::KIND && !self.known.chain.iter().any(|step| step.digest() == signers.digest())
    }

    /// Hands the gateway what it lacks of others' chains and this home has. One that lacks a part of its own chain was set
    /// back: that is not to be mended so. True if it has everything then.
    pub async fn hand_lacking(&mut self) -> Result<bool, OperateError> {
        let own = Author::Gateway(self.survey.gateway.clone());
        let replica = Replica::open(&self.folder, &self.known.founding)?;
        let has_own = |frontier: &Frontier| {
            let known = replica.state.frontier.place_of(&own).map_or(0, |place| place.seq);
            frontier.place_of(&own).map_or(0, |place| place.seq) >= known
        };
        if self.known.head.head.mandates.len() < 2 {
            return Ok(false);
        }
        for _ in 0..MOST_PAGES {
            if self.survey.frontier.covers_all(&replica.state.frontier) {
                return Ok(true);
            }
            let before = self.survey.frontier.clone();
            if !has_own(&before) {
                return Ok(false);
            }
            let page = replica.ledger.beyond(&replica.state.frontier, &before).map_err(ReplicaError::from)?;
            self.ask(Call::Hand { entries: page.0 }).await?;
            self.survey = ask_survey(&mut self.desk, &self.memory).await?;
            if self.survey.frontier == before {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Brings the copy up to date, if it is not. Nothing that is asked of the gateway waits for it to succeed.
    pub(crate) async fn pull(&mut self) {
        let (pulled, there) = (&self.memory.pulled, &self.survey.frontier);
        let has_all = pulled.covers_all(there) && !pulled.parts_from(there);
        let is_kept = self.folder.path(FOLDER).join("ledger.db").exists();
        if self.is_behind() || self.desk.is_here() || self.desk.is_alone() || (has_all && is_kept) {
            return;
        }
        if let Err(why) = Box::pin(self.replica()).await {
            if is_full(&why) {
                // A copy that cannot be written takes no room that the rest may need.
                remove(&self.folder.path(FOLDER).join("ledger.db"));
            }
            self.copy_trouble = Some(identity::causes::describe(&why));
        }
    }
}
