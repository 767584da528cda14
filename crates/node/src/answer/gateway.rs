//! The gateway itself: its keys, its state, its writer. Whoever holds its lock is the only opener.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use arc_swap::ArcSwap;
use ground::clock;
use ground::file::Lock;
use identity::bundle::{Domain, Roots};
use identity::envelope::Envelope;
use identity::head::Mandate;
use identity::key::{PublicKey, Sign as _};
use identity::principal::{Author, Principal};
use identity::time::Timestamp;
use identity::verifier::BelievedSvid;
use org::frontier::Tip;
use org::refusal::Refusal;
use org::renew::{self, Issuance};
use org::state::State;
use wire::tls::Judgment;

use crate::answer::limits::Limits;
use crate::answer::registry::Registry;
use crate::answer::writer::{Desk, OwnVoice, Writer, tip};
use crate::store::gateway::{GatewayFile, GatewayFolder, GatewayKeys};
use crate::store::ledger::{Ledger, LedgerError};
use crate::store::scope::ScopeError;

#[derive(Debug)]
pub struct Gateway {
    pub about: GatewayFile,
    pub keys: GatewayKeys,
    pub writer: Writer,
    pub judgment: Arc<ArcSwap<Judgment>>,
    pub limits: Limits,
    pub registry: Arc<Registry>,
    voice: Arc<OwnVoice>,
    state: Arc<RwLock<State>>,
    /// Shown its own future: it was restored from an old copy and must not issue.
    behind: AtomicBool,
    _lock: Lock,
}

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("another process is the gateway of this folder")]
    Busy,
    #[error(transparent)]
    Folder(#[from] ScopeError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the ledger has no head: founding did not finish")]
    NoHead,
    #[error("the ledger belongs to another org than the folder")]
    OtherOrg,
}

impl Gateway {
    pub fn open(folder: &GatewayFolder) -> Result<Self, GatewayError> {
        let about = folder.about()?;
        let lock = folder.lock()?.ok_or(GatewayError::Busy)?;
        let keys = folder.keys()?;
        let (ledger, founding) = Ledger::open(&folder.path("ledger.db"))?;
        if founding.id != about.org_id {
            return Err(GatewayError::OtherOrg);
        }
        let state = ledger.state(&founding)?;
        let judgment = Arc::new(ArcSwap::from_pointee(judgment(&state).ok_or(GatewayError::NoHead)?));
        let state = Arc::new(RwLock::new(state));
        let key = identity::key::EdKey::from_seed(&keys.voice.seed());
        let voice = Arc::new(OwnVoice { author: Author::Gateway(about.node.clone()), key });
        let writer = Writer::start(ledger, founding, Arc::clone(&state), Arc::clone(&voice));
        Ok(Self {
            about,
            keys,
            writer,
            judgment,
            limits: Limits::default(),
            registry: Arc::new(Registry::default()),
            voice,
            state,
            behind: AtomicBool::new(false),
            _lock: lock,
        })
    }

    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gateway's own mandate, if it is in force.
    pub fn mandate(&self, now: Timestamp) -> Result<Mandate, Refusal> {
        let judgment = self.judgment.load();
        let mandate = judgment.head.mandate_for_voice(self.keys.voice.public()).cloned();
        mandate.filter(|mandate| mandate.is_active(now)).ok_or(Refusal::NoMandate)
    }

    /// May it issue at all right now?
    pub fn may_issue(&self, now: Timestamp) -> Result<Mandate, Refusal> {
        if self.behind.load(Ordering::Relaxed) {
            return Err(Refusal::LedgerBehind);
        }
        if self.state().is_frozen() {
            return Err(Refusal::LedgerRefuses { why: "there are two successors of one signer set".to_owned() });
        }
        self.mandate(now)
    }

    /// Compares what someone was told earlier with what the ledger says now.
    pub fn confront(&self, shown: Option<&Envelope>) {
        let Some(shown) = shown else {
            return;
        };
        let org = Some(self.about.org_id);
        // Only this gateway's own signature can show it its future.
        let Ok(shown) = shown.open_signed_by::<Tip>(org, &[self.keys.voice.public()]) else {
            return;
        };
        let state = self.state();
        let known = state.frontier.place_of(&shown.author).map_or((0, 0), |place| (place.epoch, place.seq));
        if (shown.place.epoch, shown.place.seq) > known && !self.behind.swap(true, Ordering::Relaxed) {
            tracing::error!(
                known = known.1,
                shown = shown.place.seq,
                "this gateway's ledger is older than what it told others: it was restored from an old copy. It issues \
                 nothing from now on; restore the newest copy of its folder"
            );
        }
    }

    pub fn tip(&self) -> Result<Envelope, Refusal> {
        tip(&self.state(), &self.voice, clock::now())
    }

    /// After a new head: judge by it, and cut whoever no longer passes.
    pub fn take_effect(&self) {
        if let Some(judgment) = judgment(&self.state()) {
            self.judgment.store(Arc::new(judgment));
        }
        let state = self.state();
        let cut = self.registry.cut_unless(|key| passes(&state, key));
        if cut > 0 {
            tracing::info!(connections = cut, "cut connections of machines that no longer belong");
        }
    }

    /// Does this SVID, right now, speak for a machine that belongs?
    pub fn is_member(&self, svid: &BelievedSvid) -> Result<(), Refusal> {
        let state = self.state();
        let member = renew::member_behind(&state, &svid.node_key, &svid.node)?;
        renew::check_standing(&state, member)
    }
}

fn passes(state: &State, key: &PublicKey) -> bool {
    state.member(key).is_some_and(|member| renew::check_standing(state, member).is_ok())
}

fn judgment(state: &State) -> Option<Judgment> {
    let mut head = state.head()?.head.clone();
    // Remove wins, whichever head named it first.
    head.revocations.absorb(&state.revocations);
    let bundles = state.trusted_bundles(Domain::Identity);
    let roots = bundles.filter_map(|record| identity::certificate::from_pem(&record.body.bundle_pem).ok()).flatten();
    Some(Judgment { org: state.org, name: state.name.clone(), roots: Roots::from_certificates(roots.collect()), head })
}

impl Gateway {
    /// Logs an SVID that was made while founding, before any connection exists.
    pub async fn log_first(&self, node_key: PublicKey, principal: &Principal, row: Issuance) -> Result<(), Refusal> {
        let principal = principal.clone();
        let log =
            move |desk: &mut Desk<'_>| desk.keep(|desk| desk.ledger.log_issuance(node_key.digest(), &principal, &row));
        self.writer.run(log).await
    }
}
