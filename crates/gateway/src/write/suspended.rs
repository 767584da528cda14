//! Whom signers have suspended, by this gateway's own first sight of each: no SVID for them, and every node is told.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ground::clock;
use identity::causes::describe;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::signers::SignerSet;
use identity::time::Timestamp;
use member::store::suspensions;
use org::enroll::renew;
use org::refusal::{Objection, Refusal};
use org::state::State;
use org::state::accept::NotAccepted;
use org::suspend::suspended::{Stopped, Suspensions};
use wire::written::Written;

use crate::store::folder::GatewayFolder;

/// The ledger brings them; since when each is known here stands in a file of its own.
#[derive(Debug)]
pub struct Suspended {
    folder: GatewayFolder,
    now: ArcSwap<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    all: Suspensions,
    stopped: Stopped,
    mark: Option<Digest>,
    told: Vec<Written>,
}

impl Suspended {
    pub fn open(folder: GatewayFolder, state: &State) -> Self {
        let all = suspensions::load(&folder.folder);
        let suspended = Self { folder, now: ArcSwap::from_pointee(Kept { all, ..Kept::default() }) };
        suspended.bring_up(state);
        suspended
    }

    /// Takes what the ledger has and is not over. What was over before it was seen here is history.
    pub fn bring_up(&self, state: &State) {
        let (set, now) = (state.signer_set(), clock::now());
        let mut all = self.now.load().all.clone();
        let mut is_new = false;
        for record in state.objects.suspensions.values().flatten().filter(|record| now < record.until) {
            is_new |= all.take(std::slice::from_ref(&record.envelope), set, now);
        }
        is_new |= all.take(&[], set, now);
        if is_new && let Err(why) = suspensions::save(&self.folder.folder, &all) {
            // It counts all the same. After a restart its first sight would be a later one, and its own dates still hold.
            tracing::error!(why = describe(&why), "since when a machine is suspended could not be written down");
        }
        let (stopped, mark) = (all.stopped(set), all.mark());
        let told = all.envelopes().iter().map(Written::of).collect();
        self.now.store(Arc::new(Kept { all, stopped, mark, told }));
    }

    pub fn check(&self, node_key: Digest, now: Timestamp) -> Result<(), Refusal> {
        renew::check_suspended(&self.now.load().stopped, node_key, now)
    }

    /// What would count for nothing is not written down.
    pub fn check_new(&self, objects: &[Envelope], set: &SignerSet) -> Result<(), Refusal> {
        let kept = self.now.load();
        if objects.iter().any(|object| kept.all.repeats(object, set)) {
            return Err(Refusal::LedgerRefuses { why: Objection::of(&NotAccepted::Repeats) });
        }
        Ok(())
    }

    /// All of them, for a node that has others.
    pub fn told(&self, known: Option<Digest>) -> Option<Vec<Written>> {
        let kept = self.now.load();
        (kept.mark != known).then(|| kept.told.clone())
    }
}
