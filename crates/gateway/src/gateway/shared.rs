//! What the thread that writes and those who answer have in common: each reads what the other puts there.

use std::sync::Arc;

use arc_swap::ArcSwap;
use identity::key::{EdKey, PublicKey, Sign as _};
use identity::principal::NodeName;
use ledger::store::Ledger;
use member::store::scope::ScopeError;
use org::enroll::renew;
use org::founding::Founding;
use org::ledger::fold::Why;
use org::state::{MemberRecord, State};
use tokio::sync::RwLock;
use wire::tls::Judgment;

use crate::gateway::GatewayError;
use crate::limit::halt::Halt;
use crate::limit::registry::Registry;
use crate::limit::tally::Tally;
use crate::store::folder::GatewayFolder;
use crate::write::issuers::{self, Issuers, IssuersUpdate};
use crate::write::observations::ObservationBuffer;
use crate::write::peers::Peers;
use crate::write::places;
use crate::write::published::{Shelf, Staged};
use crate::write::suspended::Suspended;
use crate::write::tips::{OwnVoice, Tips};
use crate::write::told::Told;
use crate::write::transaction::Closing;
use crate::write::writer::Scribe;

pub(crate) struct Shared {
    pub judgment: Arc<ArcSwap<Judgment>>,
    pub issuers: Arc<ArcSwap<Issuers>>,
    pub registry: Arc<Registry>,
    pub tally: Arc<Tally>,
    /// What the disk has; the writer brings it forward after each commit.
    pub state: Arc<RwLock<State>>,
    pub tips: Arc<Tips>,
    pub observations: Arc<ObservationBuffer>,
    pub shelf: Arc<Shelf>,
    pub suspended: Arc<Suspended>,
    pub peers: Arc<Peers>,
    pub halt: Arc<Halt>,
}

impl Shared {
    /// As the ledger and the folder have it.
    pub(crate) fn read(
        folder: &GatewayFolder,
        own: &NodeName,
        ledger: &Ledger,
        state: &State,
    ) -> Result<Self, GatewayError> {
        let voice = own_voice(folder, own, state)?;
        let halt = Arc::new(Halt::read(ledger)?);
        halt.heed(state, voice.public());
        let judgment = issuers::judgment(state).ok_or(GatewayError::NoHead)?;
        let issuers = Issuers::find(state, folder, voice.public())?;
        let shelf = Shelf::default();
        shelf.bring_up(ledger, state, None);
        shelf.tell(Told::of(state));
        Ok(Self {
            judgment: Arc::new(ArcSwap::from_pointee(judgment)),
            issuers: Arc::new(ArcSwap::from_pointee(issuers)),
            registry: Arc::default(),
            tally: Arc::default(),
            state: Arc::new(RwLock::new(state.clone())),
            tips: Arc::new(Tips::new(folder.clone(), OwnVoice { gateway: own.clone(), key: voice })),
            observations: Arc::default(),
            shelf: Arc::new(shelf),
            suspended: Arc::new(Suspended::open(folder.clone(), state)),
            peers: Arc::default(),
            halt,
        })
    }

    /// Who writes, beginning with this state.
    pub(crate) fn scribe(&self, folder: &GatewayFolder, ledger: Ledger, founding: Founding, ahead: State) -> Scribe {
        let tips = Arc::clone(&self.tips);
        let effect = Effect {
            judgment: Arc::clone(&self.judgment),
            issuers: IssuersUpdate { folder: folder.clone(), tips, current: Arc::clone(&self.issuers) },
            suspended: Arc::clone(&self.suspended),
            registry: Arc::clone(&self.registry),
            halt: Arc::clone(&self.halt),
        };
        Scribe {
            ledger,
            founding,
            ahead,
            state: Arc::clone(&self.state),
            tips: Arc::clone(&self.tips),
            halt: Arc::clone(&self.halt),
            closing: Closing::default(),
            observations: Arc::clone(&self.observations),
            tally: Arc::clone(&self.tally),
            shelf: Arc::clone(&self.shelf),
            peers: Arc::clone(&self.peers),
            staged: Staged::default(),
            take_effect: Box::new(move |state| effect.take(state)),
        }
    }
}

/// After a commit that operators caused: judge by the new head, and cut whoever no longer passes.
struct Effect {
    judgment: Arc<ArcSwap<Judgment>>,
    issuers: IssuersUpdate,
    suspended: Arc<Suspended>,
    registry: Arc<Registry>,
    halt: Arc<Halt>,
}

impl Effect {
    fn take(&self, state: &State) {
        let voice = self.issuers.tips.voice().public();
        self.halt.heed(state, voice);
        places::keep(&self.issuers.folder, state, voice);
        if let Some(fresh) = issuers::judgment(state) {
            self.judgment.store(Arc::new(fresh));
        }
        self.issuers.bring_up(state);
        self.suspended.bring_up(state);
        let judgment = self.judgment.load();
        let cut = self.registry.cut_unless(|key, roots| judgment.roots.has_any(roots) && passes(state, key));
        if cut > 0 {
            tracing::info!(connections = cut, "cut connections of machines that no longer belong");
        }
    }
}

fn passes(state: &State, key: &PublicKey) -> bool {
    // While the members' map is on its way, who was let in stays.
    let stays = |member: &MemberRecord| member.why == Some(Why::NoMap) || renew::check_standing(state, member).is_ok();
    state.member(key).is_some_and(stays)
}

/// The voice in which it speaks: the spare one, if its chain has begun although the files do not say so yet.
fn own_voice(folder: &GatewayFolder, own: &NodeName, state: &State) -> Result<EdKey, ScopeError> {
    let named = state.head().and_then(|head| head.head.mandate_of(own)).map(|mandate| mandate.voice);
    if let Some(named) = named.filter(|named| state.frontier.place_of(named).is_some()) {
        folder.settle_voice(named)?;
    }
    folder.voice()
}
