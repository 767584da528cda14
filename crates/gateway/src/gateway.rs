//! The gateway itself: its keys, its state, its writer. Whoever holds its lock is the only opener.

mod shared;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ground::file::Lock;
use ground::{clock, random};
use identity::bundle::Domain;
use identity::envelope::Envelope;
use identity::head::Mandate;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::{Address, Principal};
use identity::time::Timestamp;
use ledger::error::{DAMAGED, LedgerError};
use ledger::store::Ledger;
use member::store::scope::ScopeError;
use org::enroll::renew::Issuance;
use org::ledger::entry::Stamp;
use org::ledger::fold::Why;
use org::ledger::frontier::Tip;
use org::refusal::{Fault, Objection, Refusal};
use org::state::State;
use tokio::sync::{RwLock, RwLockReadGuard};
use wire::tls::{Judgment, Vouched};
use wire::written::Written;

use self::shared::Shared;
use crate::fault::OrFault as _;
use crate::limit::download::Shelves;
use crate::limit::halt::Halt;
use crate::limit::limits::Limits;
use crate::limit::registry::Registry;
use crate::limit::tally::Tally;
use crate::store::files::Files;
use crate::store::folder::{GatewayFile, GatewayFolder};
use crate::write::issuers::{IssuersUpdate, Keys};
use crate::write::observations::{self, ObservationBuffer};
use crate::write::peers::Peers;
use crate::write::places;
use crate::write::published::Shelf;
use crate::write::suspended::Suspended;
use crate::write::tips::{OwnVoice, Tips};
use crate::write::transaction::Transaction;
use crate::write::writer::Writer;

/// How long a members' map is on its way from another gateway.
const MAP_COMES: Duration = Duration::from_secs(5);

/// How long what was observed may wait until it is written.
const OBSERVATIONS_WAIT: Duration = Duration::from_secs(1);
/// So often it waits so long while many come at once.
const OBSERVATIONS_WAITS: usize = 5;

/// Shown heads that are remembered, so that showing one again costs nothing.
const MOST_SHOWN: usize = 64;

#[derive(Debug)]
pub struct Gateway {
    pub folder: GatewayFolder,
    pub about: GatewayFile,
    pub keys: Keys,
    pub writer: Writer,
    pub judgment: Arc<ArcSwap<Judgment>>,
    pub vouched: Arc<Vouched>,
    pub callers: Callers,
    /// What is published to nodes.
    pub shelf: Arc<Shelf>,
    /// Whom signers have stopped for a while.
    pub suspended: Arc<Suspended>,
    /// How it stands with the other gateways.
    pub peers: Arc<Peers>,
    /// Files by their hash.
    pub shelves: Shelves,
    tips: Arc<Tips>,
    observations: Arc<ObservationBuffer>,
    /// What the disk has; the writer brings it forward after each commit.
    state: Arc<RwLock<State>>,
    halt: Arc<Halt>,
    /// The heads that were shown lately.
    shown: Mutex<BTreeSet<Digest>>,
    _lock: Lock,
}

/// Whoever asks: how much each may take, who is connected, and what is counted.
#[derive(Debug)]
pub struct Callers {
    pub limits: Arc<Limits>,
    pub registry: Arc<Registry>,
    pub tally: Arc<Tally>,
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

/// Why a gateway cannot issue.
#[derive(Debug, thiserror::Error)]
pub enum NoMandate {
    #[error("no mandate in the head names this gateway")]
    Unnamed,
    #[error("its mandate begins at {from}, and this machine's clock says {now}")]
    Early { from: Timestamp, now: Timestamp },
    #[error("its mandate ended at {until}, and this machine's clock says {now}")]
    Over { until: Timestamp, now: Timestamp },
}

impl Gateway {
    /// As it is, for a command that takes a moment; `open_to_serve` looks at the whole of it.
    pub fn open(folder: &GatewayFolder) -> Result<Self, GatewayError> {
        Self::open_ledger(folder, |_| Ok(()))
    }

    /// Nothing is served from a ledger that does not hold.
    pub fn open_to_serve(folder: &GatewayFolder) -> Result<Self, GatewayError> {
        Self::open_ledger(folder, |ledger| Ok(ledger.check()?))
    }

    fn open_ledger(
        folder: &GatewayFolder,
        check: impl FnOnce(&Ledger) -> Result<(), GatewayError>,
    ) -> Result<Self, GatewayError> {
        let about = folder.about()?;
        let lock = folder.lock()?.ok_or(GatewayError::Busy)?;
        let (ledger, founding) = Ledger::open(&folder.path("ledger.db"))?;
        if founding.id != about.org_id {
            return Err(GatewayError::OtherOrg);
        }
        check(&ledger)?;
        let state = ledger.state(&founding, clock::now())?;
        let shared = Shared::read(folder, &about.node, &ledger, &state)?;
        let about = places::settle(folder, &state, shared.tips.voice().public())?;
        let writer = Writer::start(shared.scribe(folder, ledger, founding, state)).map_err(GatewayError::NoThread)?;
        let Shared { judgment, issuers, registry, tally, state, tips, observations, shelf, suspended, peers, halt } =
            shared;
        Ok(Self {
            folder: folder.clone(),
            about,
            keys: Keys { issuers, drawing: Mutex::default() },
            writer,
            judgment,
            vouched: Arc::default(),
            callers: Callers { limits: Arc::new(Limits::default()), registry, tally },
            shelf,
            suspended,
            peers,
            shelves: Shelves::new(Files::at(folder.path("files"))),
            tips,
            observations,
            state,
            halt,
            shown: Mutex::default(),
            _lock: lock,
        })
    }

    pub async fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().await
    }

    /// Signs this gateway's chain; another one, once operators have it begin another.
    pub fn voice(&self) -> PublicKey {
        self.tips.voice().public()
    }

    /// The voice in which it would begin another chain, and the one of now.
    pub(crate) fn spare_voice(&self) -> Result<(PublicKey, Arc<OwnVoice>), ScopeError> {
        self.tips.spare()
    }

    /// Has the writer look at what time alone changes: who signs, and in which voice it speaks. While a recovery waits, each
    /// time: the clock may have been set since it was told when that ends.
    pub async fn keep_time(&self) {
        let due = {
            let state = self.state().await;
            state.turns_at().is_some() || self.tips.next(&state).is_some()
        };
        if due && let Err(why) = self.writer.run(|_| Ok(())).await {
            tracing::error!(%why, "what is due could not be written; will try again");
        }
    }

    /// Where machines find it now.
    pub fn addresses(&self) -> Vec<Address> {
        places::named_or(&self.judgment.load().head, self.voice(), &self.about).to_vec()
    }

    /// The gateway's own mandate, if it is in force.
    pub fn mandate(&self, now: Timestamp) -> Result<Mandate, Refusal> {
        let judgment = self.judgment.load();
        let mandate = judgment.head.mandate_for_voice(self.voice()).cloned();
        mandate.filter(|mandate| mandate.is_active(now)).ok_or(Refusal::NoMandate)
    }

    /// Issues and shows what the state says, if that could not be seen at once.
    pub fn update_issuers(&self, state: &State) {
        let (tips, current) = (Arc::clone(&self.tips), Arc::clone(&self.keys.issuers));
        IssuersUpdate { folder: self.folder.clone(), tips, current }.bring_up(state);
    }

    /// The files say which keys are in use, and the next ones lie ready, so that backups have them long before they are
    /// needed.
    pub fn settle_keys(&self) -> Result<(), ScopeError> {
        let _drawing = self.keys.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        self.keys.issuers.load_full().settle(&self.folder)?;
        for domain in [Domain::Identity, Domain::Endpoint] {
            self.folder.spare(domain)?;
        }
        self.tips.spare()?;
        Ok(())
    }

    /// Are there other gateways with a mandate?
    pub fn has_peers(&self) -> bool {
        self.judgment.load().head.mandates.len() > 1
    }

    /// Why it cannot issue, with both times: a wrong clock looks like a mandate that ended.
    pub fn why_no_mandate(&self, now: Timestamp) -> NoMandate {
        let judgment = self.judgment.load();
        match judgment.head.mandate_for_voice(self.voice()) {
            None => NoMandate::Unnamed,
            Some(mandate) if now < mandate.not_before => NoMandate::Early { from: mandate.not_before, now },
            Some(mandate) => NoMandate::Over { until: mandate.not_after, now },
        }
    }

    /// May it issue at all right now?
    pub fn may_issue(&self, now: Timestamp) -> Result<Mandate, Refusal> {
        self.halt.check()?;
        if self.halt.is_frozen() {
            return Err(Refusal::LedgerRefuses { why: Objection::Frozen });
        }
        let mandate = self.mandate(now)?;
        let revoked = self.judgment.load().head.revocations.issuing_keys.contains(&mandate.identity_issuer);
        // It would be believed nowhere.
        if revoked { Err(Refusal::NoMandate) } else { Ok(mandate) }
    }

    /// Past its freshness a head lets nobody new in; members go on.
    pub fn may_admit(&self, now: Timestamp) -> Result<(), Refusal> {
        let until = self.judgment.load().head.fresh_until;
        if now < until { Ok(()) } else { Err(Refusal::HeadStale { until }) }
    }

    /// What someone was told earlier about this ledger: only this gateway's own signature can show it its future.
    pub fn own_word(&self, shown: Option<&Envelope>) -> Option<Tip> {
        let (org, voice) = (Some(self.about.org_id), self.voice());
        let shown = shown.and_then(|shown| shown.open_signed_by::<Tip>(org, &[voice]).ok());
        shown.filter(|shown| shown.voice == voice)
    }

    /// Did this very process say it, not long ago?
    pub fn has_said(&self, word: &Envelope) -> bool {
        self.tips.has_said(word)
    }

    /// Compares what someone was told earlier with what the ledger says now.
    pub async fn confront(&self, shown: Option<&Envelope>) -> Result<(), Refusal> {
        // A restored one knows that it lacks something.
        if self.halt.is_restored() {
            return self.halt.check();
        }
        if let Some(shown) = self.own_word(shown) {
            self.writer.run(move |tx| tx.confirms(&shown)).await?;
        }
        self.check_halt()
    }

    /// A head came before its map, which other gateways have: whoever asks meanwhile waits with this one for a moment.
    pub async fn await_map(&self) -> Result<(), Refusal> {
        if !self.halt.is_mapless() {
            return Ok(());
        }
        let mut bell = self.shelf.listen();
        let mapped = async { while self.halt.is_mapless() && bell.changed().await.is_ok() {} };
        if self.has_peers() {
            let _ = tokio::time::timeout(MAP_COMES, mapped).await;
        }
        if self.halt.is_mapless() { Err(Refusal::LedgerBehind) } else { Ok(()) }
    }

    /// Was this head not shown before? True once for each.
    pub fn is_news(&self, head: Digest) -> bool {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() >= MOST_SHOWN {
            shown.clear();
        }
        shown.insert(head)
    }

    /// It could not be kept: whoever shows it next brings news again.
    pub fn forget_news(&self, head: Digest) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(&head);
    }

    /// Does something hold it back that only operators can take away? A gateway that is behind or restored vouches for
    /// nothing: its word would be held against the newest copy.
    pub fn check_halt(&self) -> Result<(), Refusal> {
        self.halt.check()
    }

    /// Does the ledger have something against this node key?
    pub fn is_alarmed(&self, node_key: Digest) -> bool {
        self.halt.is_alarmed(node_key)
    }

    pub async fn tip(&self) -> Result<Envelope, Refusal> {
        self.tip_of(&*self.state().await)
    }

    /// The state is one that readers see, so it is on disk.
    pub fn tip_of(&self, state: &State) -> Result<Envelope, Refusal> {
        self.check_halt()?;
        self.tips.tip(state, clock::now())
    }

    /// The same, as it stands in an answer.
    pub fn written_tip_of(&self, state: &State) -> Result<Written, Refusal> {
        self.check_halt()?;
        self.tips.written(state, clock::now())
    }

    /// Does the newest word about this ledger say the same as what is shown?
    pub fn is_newest(&self, state: &State, shown: &Tip) -> bool {
        state.frontier.place_of(&shown.voice) == Some(shown.place)
    }

    /// Notes that a member was there.
    pub fn note_seen(self: &Arc<Self>, node_key: PublicKey, at: Timestamp) {
        if self.observations.seen(node_key.digest(), at) {
            self.write_observations_soon();
        }
    }

    /// Notes what a member says of itself.
    pub fn note_report(self: &Arc<Self>, node_key: Digest, at: Timestamp, head: u64, report: Envelope) {
        if self.observations.reported(node_key, at, head, report) {
            self.write_observations_soon();
        }
    }

    /// Notes that an attempt was refused.
    pub fn note_refused(self: &Arc<Self>, source: IpAddr, refusal: &Refusal) {
        if self.observations.refused(clock::now(), source.to_string(), &refusal.to_string()) {
            self.write_observations_soon();
        }
    }

    fn write_observations_soon(self: &Arc<Self>) {
        let gateway = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut before = 0;
            for _ in 0..OBSERVATIONS_WAITS {
                tokio::time::sleep(OBSERVATIONS_WAIT).await;
                let Some(now) = gateway.upgrade().map(|gateway| gateway.observations.len()) else { return };
                if !observations::rush(before, now) {
                    break;
                }
                before = now;
            }
            // Every batch writes what waits; this one has nothing else to do.
            drop(gateway.upgrade().map(|gateway| gateway.writer.submit(|_| Ok(()))));
        });
    }
}

impl Gateway {
    /// A gateway vouches for its own chain: a new one begins it by writing down that its machine is there.
    pub async fn speak_first(&self) -> Result<(), Refusal> {
        let key = {
            let state = self.state().await;
            if state.frontier.place_of(&self.voice()).is_some() {
                return Ok(());
            }
            // While the members' map is on its way, nobody is known to be listed.
            let unsure = || state.named(&self.about.node).find(|member| member.why == Some(Why::NoMap));
            let own = state.holder(&self.about.node).or_else(unsure);
            own.map(|member| member.claim().node_key.digest())
        };
        let (node_key, name) = (key.ok_or(Refusal::NotAdmitted)?, self.about.node.clone());
        let correlation = random::correlation().or_fault(Fault::Randomness)?;
        let begin =
            move |tx: &mut Transaction<'_>| tx.begin_chain(node_key, name, Stamp { at: clock::now(), correlation });
        self.writer.run(begin).await
    }

    /// Logs an SVID that was made while founding, before any connection exists.
    pub async fn log_first(&self, node_key: PublicKey, principal: &Principal, row: Issuance) -> Result<(), Refusal> {
        let principal = principal.clone();
        let log =
            move |tx: &mut Transaction<'_>| tx.keep(|tx| tx.ledger.log_issuance(node_key.digest(), &principal, &row));
        self.writer.run(log).await
    }
}
