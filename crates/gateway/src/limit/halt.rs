//! The halt (fencing): what keeps a gateway from issuing and vouching: it lacks something, its chain forks, or it was
//! restored and its chain was not begun anew. What keeps it from serving one node key: an alarm.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use identity::id::Digest;
use identity::key::PublicKey;
use ledger::error::LedgerError;
use ledger::marks::Mark;
use ledger::store::Ledger;
use org::refusal::Refusal;
use org::state::State;

/// The marks of the ledger's file, at hand. Set on disk first, then here.
#[derive(Debug, Default)]
pub struct Halt {
    behind: AtomicBool,
    restored: AtomicBool,
    /// The members' map of the head in force is not here yet.
    mapless: AtomicBool,
    /// Its own chain forks: operators choose which branch stays.
    forked: AtomicBool,
    /// There are two successors of one signer set.
    frozen: AtomicBool,
    /// Node keys with an alarm, so that the many without one need not be looked up.
    alarmed: RwLock<BTreeSet<Digest>>,
}

impl Halt {
    pub fn read(ledger: &Ledger) -> Result<Self, LedgerError> {
        Ok(Self {
            behind: ledger.is_marked(Mark::Behind)?.into(),
            restored: ledger.is_marked(Mark::Restored)?.into(),
            mapless: AtomicBool::new(false),
            forked: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            alarmed: RwLock::new(ledger.alarmed()?),
        })
    }

    pub fn check(&self) -> Result<(), Refusal> {
        self.check_mapless()?;
        if self.is_mapless() { Err(Refusal::LedgerBehind) } else { Ok(()) }
    }

    /// A head came before its map: who is listed is not known.
    pub fn is_mapless(&self) -> bool {
        self.mapless.load(Ordering::Relaxed)
    }

    /// The same for what says nothing of members: a new gateway begins its chain before the map has come.
    pub fn check_mapless(&self) -> Result<(), Refusal> {
        // Whoever restored it knows that it is behind: what is to be done then is said first.
        if self.is_restored() {
            return Err(Refusal::Restored);
        }
        let set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if set(&self.behind) || set(&self.forked) { Err(Refusal::LedgerBehind) } else { Ok(()) }
    }

    pub fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Relaxed)
    }

    /// What the state says of it.
    pub fn heed(&self, state: &State, voice: PublicKey) {
        let names_map = state.head().is_some_and(|record| record.head.members.is_some());
        self.mapless.store(names_map && state.leaves().is_none(), Ordering::Relaxed);
        self.forked.store(state.judged.fold.forks.contains_key(&voice), Ordering::Relaxed);
        self.frozen.store(state.is_frozen(), Ordering::Relaxed);
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    pub fn is_alarmed(&self, node_key: Digest) -> bool {
        self.alarmed.read().unwrap_or_else(PoisonError::into_inner).contains(&node_key)
    }

    /// Whoever asks with this key is looked up in the ledger from now on, also if the disk does not take the alarm.
    pub fn alarm(&self, node_key: Digest) {
        self.alarmed.write().unwrap_or_else(PoisonError::into_inner).insert(node_key);
    }

    /// True the first time.
    pub fn fall_behind(&self) -> bool {
        !self.behind.swap(true, Ordering::Relaxed)
    }

    /// After a commit that operators caused: they alone can take a mark back.
    pub fn look_again(&self, ledger: &Ledger) -> Result<(), LedgerError> {
        let now = Self::read(ledger)?;
        self.behind.store(now.behind.into_inner(), Ordering::Relaxed);
        self.restored.store(now.restored.into_inner(), Ordering::Relaxed);
        Ok(())
    }
}
