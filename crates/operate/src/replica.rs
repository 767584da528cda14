//! The operator's own copy of the ledger: pulled from gateways, folded here, and looked at when none answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ground::clock;
use ground::file::{self, FileError, Lock};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Digest;
use identity::key::PublicKey;
use ledger::error::LedgerError;
use ledger::replicate::{self, NotTaken};
use ledger::store::Ledger;
use org::founding::Founding;
use org::ledger::heads::Held;
use org::state::State;
use wire::control::{Answer, Call};
use wire::known::Known;

use crate::desk::{Desk, DeskError};
use crate::folder::{OperatorFolder, REPLICA};
use crate::session::{OperateError, Session, ask_survey};

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
}

/// A state, and how far the copy was written when it was read.
#[derive(Debug)]
pub struct Read {
    pub state: Arc<State>,
    pub extent: (i64, i64),
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
    pub fn open(folder: &OperatorFolder, known: &Known) -> Result<Self, ReplicaError> {
        Self::open_again(folder, known, None)
    }

    /// What was read before is not read again, if nothing was written since.
    fn open_again(folder: &OperatorFolder, known: &Known, read_before: Option<Read>) -> Result<Self, ReplicaError> {
        let inside = folder.path(REPLICA);
        file::make_private_folder(&inside)?;
        let lock = Lock::wait(&inside.join("lock"))?;
        let path = inside.join("ledger.db");
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

    /// The store alone, without what follows from its entries.
    pub(crate) fn store(folder: &OperatorFolder, known: &Known) -> Result<(Ledger, Lock), ReplicaError> {
        let inside = folder.path(REPLICA);
        file::make_private_folder(&inside)?;
        let lock = Lock::wait(&inside.join("lock"))?;
        let path = inside.join("ledger.db");
        let ledger = if path.exists() { Ledger::open(&path)?.0 } else { begin(&path, known)?.0 };
        Ok((ledger, lock))
    }

    /// How many entries were new.
    fn take(&mut self, page: Vec<Envelope>) -> Result<usize, ReplicaError> {
        Ok(replicate::take(&self.ledger, &mut self.state, page, clock::now())?)
    }
}

impl Replica {
    /// Is it known here that these chains fork?
    fn knows(&self, forks: &[PublicKey]) -> bool {
        forks.iter().all(|voice| self.state.fold.forks.contains_key(voice))
    }

    /// A head that stands in no entry that is here; whoever hands it over has checked it.
    fn take_head(&mut self, head: &Envelope) -> Result<(), ReplicaError> {
        let now = clock::now();
        if self.state.has_object(head) || self.state.open_shown(head).is_none() {
            return Ok(());
        }
        self.ledger.add_object(head)?;
        self.ledger.keep_time(&mut self.state, now);
        // It was opened a moment ago.
        let _unread = self.state.take(head, now);
        Ok(self.ledger.conclude(&mut self.state, now)?)
    }
}

fn read(path: &Path, founding: &Founding) -> Result<(Ledger, State), ReplicaError> {
    let (ledger, own) = Ledger::open(path)?;
    if own.id != founding.id {
        return Err(LedgerError::Damaged("it is another org's".to_owned()).into());
    }
    let state = ledger.state(&own, clock::now())?;
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

/// The signers whom this home follows already need not wait again.
fn begin(path: &Path, known: &Known) -> Result<(Ledger, State), ReplicaError> {
    remove(path);
    let ledger = Ledger::create(path, &known.founding)?;
    ledger.keep_sights(&known.followed())?;
    let state = ledger.state(&known.founding, clock::now())?;
    Ok((ledger, state))
}

impl<D: Desk> Session<D> {
    /// This home's copy, with all that the gateway has.
    pub async fn replica(&mut self) -> Result<Replica, OperateError> {
        let before = self.fold.clone().zip(self.extent).map(|(state, extent)| Read { state, extent });
        let mut replica = Replica::open_again(&self.folder, &self.known, before)?;
        if self.desk.is_alone() {
            return Ok(replica);
        }
        // One that is held back may have a branch of its chain that is no longer than what is here.
        let mut suspects = self.survey.halt.is_some() || !replica.knows(&self.survey.forks);
        loop {
            let parted = suspects || replica.state.frontier.parted(&self.survey.frontier).next().is_some();
            if replica.state.frontier.covers_all(&self.survey.frontier) && !parted {
                break;
            }
            suspects = false;
            let call = Call::Beyond { frontier: replica.state.frontier.clone() };
            let Answer::Beyond { entries, more } = self.ask(call).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            // Whoever says that there is more, and brings nothing new, is not asked for ever.
            if replica.take(entries)? == 0 || (parted && !more) {
                break;
            }
        }
        // A machine may have shown it to the gateway: then it stands in no chain that is there.
        if self.survey.head.digest() == self.known.head.digest {
            replica.take_head(&self.survey.head)?;
        }
        // What this home saw before its copy did counts from then.
        let mut earlier = false;
        for (step, first) in self.known.sights() {
            let later = replica.state.replica.sights.get_mut(step).filter(|since| first < since);
            if let Some(since) = later {
                *since = *first;
                replica.ledger.date_sight(*step, *first).map_err(ReplicaError::from)?;
                earlier = true;
            }
        }
        if earlier {
            replica.ledger.conclude(&mut replica.state, clock::now()).map_err(ReplicaError::from)?;
        }
        self.extent = Some(replica.ledger.extent().map_err(ReplicaError::from)?);
        let mut replica = replica.unlocked();
        self.fetch_map(&mut replica).await?;
        let (frontier, now) = (replica.state.frontier.clone(), clock::now());
        let beside = !replica.state.ground.rivals.is_empty();
        self.remember(|memory| (memory.pulled, memory.pulled_at, memory.beside) = (frontier, Some(now), beside))?;
        Ok(replica)
    }

    /// Of older heads this home has most on its disk alone.
    pub(crate) async fn whole_head(&mut self, head: Held<'_>) -> Result<Head, OperateError> {
        if let Held::Whole(record) = head {
            return Ok(record.head.clone());
        }
        let replica = Box::pin(self.replica()).await?;
        let found = replica.ledger.heads(&BTreeSet::from([head.digest()])).map_err(ReplicaError::from)?;
        let found = found.first().map(|found| found.peek::<Head>(Some(self.known.org()))).transpose()?;
        found.ok_or(OperateError::NotKept { what: "the head", digest: head.digest() })
    }

    /// The members' map of the head in force, if it is not here: without it nobody is known to be listed. Where several sets
    /// claim one place, those of their heads, too: whoever settles it goes on from one of them.
    async fn fetch_map(&mut self, replica: &mut Replica) -> Result<(), OperateError> {
        for root in replica.state.claimed_maps() {
            if self.leaves_at_home(root).is_none() {
                self.fetch(root).await?;
            }
        }
        let root = replica.state.head().and_then(|record| record.head.members);
        let Some(root) = root.filter(|_| replica.state.leaves().is_none()) else { return Ok(()) };
        if self.fetch(root).await? {
            replica.ledger.conclude(&mut replica.state, clock::now()).map_err(ReplicaError::from)?;
        }
        Ok(())
    }

    /// False if it is not there: it may come later, from another gateway.
    async fn fetch(&mut self, root: Digest) -> Result<bool, OperateError> {
        match self.published_as(root).await {
            Ok(_) => Ok(true),
            Err(OperateError::NotKept { .. }) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Hands the gateway what it lacks and this home has: entries, of its own chain, too, and the map of the head in force.
    pub async fn hand_lacking(&mut self) -> Result<(), OperateError> {
        let has_all = self.survey.frontier.covers_all(&self.memory.pulled);
        if has_all && self.survey.halt.is_none() {
            return Ok(());
        }
        let replica = Replica::open(&self.folder, &self.known)?.unlocked();
        if has_all {
            return self.hand_rest(&replica).await;
        }
        for _ in 0..MOST_PAGES {
            let before = self.survey.frontier.clone();
            let (page, _) = replica.ledger.beyond(&replica.state, &before).map_err(ReplicaError::from)?;
            if page.is_empty() || before.covers_all(&replica.state.frontier) {
                break;
            }
            self.ask(Call::Hand { entries: page }).await?;
            self.survey = ask_survey(&mut self.desk, &self.memory).await?;
            if self.survey.frontier == before {
                break;
            }
        }
        // Last: until the map is here it writes nothing, and then it has what it lacked.
        self.hand_rest(&replica).await
    }

    /// A gateway that is held back and has as much as this home may lack the map, or not know that its chain forks.
    async fn hand_rest(&mut self, replica: &Replica) -> Result<(), OperateError> {
        let (mut page, _) = replica.ledger.beyond(&replica.state, &self.survey.frontier).map_err(ReplicaError::from)?;
        page.extend(replica.ledger.branches(&replica.state).map_err(ReplicaError::from)?);
        if !page.is_empty() {
            self.ask(Call::Hand { entries: page }).await?;
        }
        self.hand_map(replica).await?;
        self.survey = ask_survey(&mut self.desk, &self.memory).await?;
        Ok(())
    }

    /// Of the head in force, and of those that are not while several sets claim one place.
    async fn hand_map(&mut self, replica: &Replica) -> Result<(), OperateError> {
        let own = replica.state.head().and_then(|record| record.head.members);
        for root in own.into_iter().chain(replica.state.claimed_maps()) {
            let Some(leaves) = self.leaves_at_home(root) else { continue };
            let manifests = self.manifests_at_home(&leaves);
            self.hand_in_leaves((root, &leaves, &manifests), None, &mut |_, _| {}).await?;
        }
        Ok(())
    }

    /// Brings the copy up to date, if it is not. Nothing that is asked of the gateway waits for it to succeed.
    pub(crate) async fn pull(&mut self) {
        let (pulled, there) = (&self.memory.pulled, &self.survey.frontier);
        let has_all = pulled.covers_all(there) && pulled.parted(there).next().is_none() && !self.survey.is_odd();
        let is_kept = self.folder.path(REPLICA).join("ledger.db").exists();
        if (self.desk.is_alone() || (has_all && is_kept)) && !self.memory.beside {
            return;
        }
        match Box::pin(self.replica()).await {
            Ok(replica) => self.fold = Some(Arc::new(replica.state)),
            Err(why) => {
                if is_full(&why) {
                    // A copy that cannot be written takes no room that the rest may need.
                    remove(&self.folder.path(REPLICA).join("ledger.db"));
                }
                self.copy_trouble = Some(identity::causes::describe(&why));
            }
        }
    }
}
