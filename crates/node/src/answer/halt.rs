//! What keeps a gateway from issuing and vouching: it is behind, or it was restored and no new epoch has begun. What
//! keeps it from serving one node key: an alarm.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use identity::id::Digest;
use org::refusal::Refusal;

use ledger::error::LedgerError;
use ledger::marks::Mark;
use ledger::store::Ledger;

/// The marks of the ledger's file, at hand. Set on disk first, then here.
#[derive(Debug, Default)]
pub struct Halt {
    behind: AtomicBool,
    restored: AtomicBool,
    /// Somebody showed a later head: what it decided is not in this ledger.
    outdated: AtomicBool,
    /// Node keys with an alarm, so that the many without one need not be looked up.
    alarmed: RwLock<BTreeSet<Digest>>,
}

impl Halt {
    pub fn read(ledger: &Ledger) -> Result<Self, LedgerError> {
        Ok(Self {
            behind: ledger.is_marked(Mark::Behind)?.into(),
            restored: ledger.is_marked(Mark::Restored)?.into(),
            outdated: AtomicBool::new(false),
            alarmed: RwLock::new(ledger.alarmed()?),
        })
    }

    pub fn check(&self) -> Result<(), Refusal> {
        // Whoever restored it knows that it is behind: what is to be done then is said first.
        if self.is_restored() {
            return Err(Refusal::Restored);
        }
        let lacks = self.behind.load(Ordering::Relaxed) || self.outdated.load(Ordering::Relaxed);
        if lacks { Err(Refusal::LedgerBehind) } else { Ok(()) }
    }

    pub fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Relaxed)
    }

    /// While a later head than the ledger's is known, nothing is issued by the older one.
    pub fn set_outdated(&self, outdated: bool) {
        self.outdated.store(outdated, Ordering::Relaxed);
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
