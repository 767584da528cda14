//! The operator's own copy of the ledger: pulled from gateways, folded here, and looked at when none answers.

use std::path::Path;

use ground::clock;
use ground::file::{self, FileError, Lock};
use identity::envelope::Envelope;
use identity::principal::Author;
use ledger::error::LedgerError;
use ledger::replicate::{self, NotTaken};
use ledger::store::Ledger;
use org::founding::Founding;
use org::frontier::Frontier;
use org::state::State;
use wire::control::{Answer, Call};

use crate::desk::{Desk, DeskError};
use crate::folder::OperatorFolder;
use crate::session::{OperateError, Session, ask_survey};

/// Everything in it can be had again from any gateway: no backup carries it.
pub const FOLDER: &str = "replica";

#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("this home's copy of the ledger cannot be used")]
    Ledger(#[from] LedgerError),
    #[error("what the gateway has does not fit this home's copy of the ledger")]
    NotTaken(#[from] NotTaken),
}

/// Whoever holds it is the only command of this home that reads or writes the copy.
#[derive(Debug)]
pub struct Replica {
    pub state: State,
    pub ledger: Ledger,
    _lock: Lock,
}

impl Replica {
    /// A copy that is damaged is made anew.
    pub fn open(folder: &OperatorFolder, founding: &Founding) -> Result<Self, ReplicaError> {
        let inside = folder.path(FOLDER);
        file::make_private_folder(&inside)?;
        let lock = Lock::wait(&inside.join("lock"))?;
        let path = inside.join("ledger.db");
        let (ledger, state) = match read(&path, founding) {
            Ok(read) => read,
            Err(_) => begin(&path, founding)?,
        };
        Ok(Self { state, ledger, _lock: lock })
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
                    return Err(OperateError::LedgerBehind);
                }
                replica.forget(&self.folder, &founding)?;
            }
            let call = Call::Beyond { frontier: replica.state.frontier.clone() };
            let Answer::Beyond { entries, .. } = self.ask(call).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            anew = entries.is_empty();
            match replica.take(entries) {
                Ok(()) => {}
                Err(ReplicaError::NotTaken(NotTaken::Unfit(_))) => anew = true,
                Err(why) => return Err(why.into()),
            }
        }
        let frontier = replica.state.frontier.clone();
        let now = clock::now();
        self.remember(|memory| (memory.pulled, memory.pulled_at) = (frontier, Some(now)))?;
        Ok(replica)
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
        while !self.survey.frontier.covers_all(&replica.state.frontier) {
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
        Ok(true)
    }

    /// Brings the copy up to date, if it is not. Nothing that is asked of the gateway waits for it to succeed.
    pub(crate) async fn pull(&mut self) {
        let (pulled, there) = (&self.memory.pulled, &self.survey.frontier);
        let has_all = pulled.covers_all(there) && !pulled.parts_from(there);
        let is_kept = self.folder.path(FOLDER).join("ledger.db").exists();
        if self.is_behind() || self.desk.is_here() || (has_all && is_kept) {
            return;
        }
        if let Err(why) = Box::pin(self.replica()).await {
            if matches!(why, OperateError::Replica(_)) {
                // A copy that cannot be written takes no room that the rest may need.
                remove(&self.folder.path(FOLDER).join("ledger.db"));
            }
            self.copy_trouble = Some(identity::causes::describe(&why));
        }
    }
}
