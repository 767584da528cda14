//! The gateway itself: its keys, its state, its writer. Whoever holds its lock is the only opener.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use arc_swap::ArcSwap;
use ground::clock;
use ground::file::Lock;
use identity::bundle::{Domain, Roots};
use identity::envelope::Envelope;
use identity::head::{Cut, Mandate};
use identity::key::{PublicKey, Sign as _};
use identity::principal::{Author, Principal};
use identity::time::Timestamp;
use org::founding::Founding;
use org::frontier::Tip;
use org::refusal::Refusal;
use org::renew::{self, Issuance};
use org::state::State;
use wire::tls::Judgment;

use crate::answer::limits::Limits;
use crate::answer::registry::Registry;
use crate::answer::writer::{Desk, OwnVoice, Scribe, Writer, tip};
use crate::store::gateway::{GatewayFile, GatewayFolder, GatewayKeys};
use crate::store::ledger::{DAMAGED, Ledger, LedgerError};
use crate::store::scope::ScopeError;

#[derive(Debug)]
pub struct Gateway {
    pub about: GatewayFile,
    pub keys: GatewayKeys,
    pub writer: Writer,
    pub judgment: Arc<ArcSwap<Judgment>>,
    pub limits: Arc<Limits>,
    pub registry: Arc<Registry>,
    voice: Arc<OwnVoice>,
    state: Arc<RwLock<State>>,
    /// Shown its own future: it was restored from an old copy and must not issue.
    behind: Arc<AtomicBool>,
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
    #[error("the ledger's writer could not be started")]
    NoThread(#[source] std::io::Error),
    #[error("the ledger belongs to another org than the folder")]
    OtherOrg,
}

impl GatewayError {
    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Busy => Some("is it already running? only one process can be the gateway of a home"),
            Self::Ledger(why) => why.hint(),
            Self::Folder(ScopeError::Damaged { .. } | ScopeError::DamagedKey { .. }) => Some(DAMAGED),
            Self::Folder(_) | Self::NoHead | Self::NoThread(_) | Self::OtherOrg => None,
        }
    }
}

impl Gateway {
    /// As it is, for a command that takes a moment; `open_to_serve` looks at the whole of it.
    pub fn open(folder: &GatewayFolder) -> Result<Self, GatewayError> {
        Self::open_ledger(folder, |_, _| Ok(()))
    }

    /// Nothing is served from a ledger that does not hold.
    pub fn open_to_serve(folder: &GatewayFolder) -> Result<Self, GatewayError> {
        Self::open_ledger(folder, |ledger, founding| {
            let mended = ledger.check(founding)?;
            if let Some(row) = mended {
                tracing::error!(
                    row,
                    "what was derived from the ledger was not what its entries say, and was made anew from them: is the \
                     disk in order?"
                );
            }
            Ok(())
        })
    }

    fn open_ledger(
        folder: &GatewayFolder,
        check: impl FnOnce(&Ledger, &Founding) -> Result<(), GatewayError>,
    ) -> Result<Self, GatewayError> {
        let about = folder.about()?;
        let lock = folder.lock()?.ok_or(GatewayError::Busy)?;
        let keys = folder.keys()?;
        let (ledger, founding) = Ledger::open(&folder.path("ledger.db"))?;
        if founding.id != about.org_id {
            return Err(GatewayError::OtherOrg);
        }
        check(&ledger, &founding)?;
        let state = ledger.state(&founding)?;
        let behind = Arc::new(AtomicBool::new(ledger.is_behind()?));
        let judgment = Arc::new(ArcSwap::from_pointee(judge_by(&state).ok_or(GatewayError::NoHead)?));
        let registry = Arc::new(Registry::default());
        let state = Arc::new(RwLock::new(state));
        let key = identity::key::EdKey::from_seed(&keys.voice.seed());
        let voice = Arc::new(OwnVoice { author: Author::Gateway(about.node.clone()), key });
        let take_effect = effect(Arc::clone(&judgment), Arc::clone(&registry));
        let scribe = Scribe {
            ledger,
            founding,
            state: Arc::clone(&state),
            voice: Arc::clone(&voice),
            behind: Arc::clone(&behind),
            closing: Arc::default(),
            take_effect,
        };
        let writer = Writer::start(scribe).map_err(GatewayError::NoThread)?;
        Ok(Self {
            about,
            keys,
            writer,
            judgment,
            limits: Arc::new(Limits::default()),
            registry,
            voice,
            state,
            behind,
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

    /// Why it cannot issue, with both times: a wrong clock looks like a mandate that ended.
    pub fn why_no_mandate(&self, now: Timestamp) -> String {
        let judgment = self.judgment.load();
        match judgment.head.mandate_for_voice(self.keys.voice.public()) {
            None => "no mandate in the head names this gateway".to_owned(),
            Some(mandate) if now < mandate.not_before => {
                format!("its mandate begins at {}, and this machine's clock says {now}", mandate.not_before)
            }
            Some(mandate) => format!("its mandate ended at {}, and this machine's clock says {now}", mandate.not_after),
        }
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

    /// Past its freshness a head lets nobody new in; members go on.
    pub fn may_admit(&self, now: Timestamp) -> Result<(), Refusal> {
        let until = self.judgment.load().head.fresh_until;
        if now < until { Ok(()) } else { Err(Refusal::HeadStale { until }) }
    }

    /// Compares what someone was told earlier with what the ledger says now. A gateway that is shown its own future,
    /// or another past than it has, was restored from an old copy: it stops issuing, for good.
    pub async fn confront(&self, shown: Option<&Envelope>) -> Result<(), Refusal> {
        let org = Some(self.about.org_id);
        // Only this gateway's own signature can show it its future.
        let voice = self.keys.voice.public();
        let shown = shown.and_then(|shown| shown.open_signed_by::<Tip>(org, &[voice]).ok());
        if let Some(shown) = shown.filter(|shown| shown.author == self.voice.author) {
            let seq = shown.place.seq;
            let look = move |desk: &mut Desk<'_>| {
                let at = Cut { author: shown.author, epoch: shown.place.epoch, seq };
                let known = desk.keep(|desk| desk.ledger.entry_digest(&at))?;
                if known == Some(shown.place.digest) {
                    return Ok(false);
                }
                desk.keep(|desk| desk.ledger.mark_behind())?;
                Ok(true)
            };
            if self.writer.run(look).await? && !self.behind.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    entry = seq,
                    "this gateway told others of an entry that its ledger does not have: it was restored from an old \
                     copy. It issues nothing from now on; restore the newest copy of its folder"
                );
            }
        }
        if self.behind.load(Ordering::Relaxed) { Err(Refusal::LedgerBehind) } else { Ok(()) }
    }

    /// A gateway that is behind vouches for nothing: its word would be held against the newest copy.
    pub fn tip(&self) -> Result<Envelope, Refusal> {
        if self.behind.load(Ordering::Relaxed) {
            return Err(Refusal::LedgerBehind);
        }
        tip(&self.state(), &self.voice, clock::now())
    }
}

/// After a commit that operators caused: judge by the new head, and cut whoever no longer passes.
fn effect(judgment: Arc<ArcSwap<Judgment>>, registry: Arc<Registry>) -> Box<dyn Fn(&State) + Send> {
    Box::new(move |state| {
        if let Some(fresh) = judge_by(state) {
            judgment.store(Arc::new(fresh));
        }
        let cut = registry.cut_unless(|key| passes(state, key));
        if cut > 0 {
            tracing::info!(connections = cut, "cut connections of machines that no longer belong");
        }
    })
}

fn passes(state: &State, key: &PublicKey) -> bool {
    state.member(key).is_some_and(|member| renew::check_standing(state, member).is_ok())
}

fn judge_by(state: &State) -> Option<Judgment> {
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
