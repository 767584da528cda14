//! The exchange (anti-entropy): asks another gateway for what is lacking here, and for news.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::envelope::{BadEnvelope, Envelope};
use identity::head::BadHead;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Seconds;
use member::ask::call::call_known;
use member::ask::error::AskError;
use member::ask::reach::believe_one_of;
use member::ask::{keep, sync};
use member::store::scope::Scope;
use org::ledger::entry::SignedEntry;
use org::ledger::frontier::Tip;
use org::refusal::Refusal;
use wire::connect::reply::BadReply;
use wire::connect::{AlertKind, Anchor, Believed, CallError, GatewayAddress};
use wire::exchange::{Delta, ExchangeAnswer, ExchangeRequest, Have, LONGEST_EXCHANGE};
use wire::known::BadKnowledge;
use wire::permit::Ask;

use crate::answer::operator::{stage, trust};
use crate::answer::show;
use crate::gateway::Gateway;
use crate::store::files::FilesError;
use crate::write::peers::lacking;
use crate::write::published::Published;
use crate::write::transaction::Transaction;
use crate::write::transaction::merge::maps_named;

/// Asked no sooner than this, if the last answer brought nothing.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);

/// What gateways issue with changes seldom.
const ISSUERS_EVERY: Duration = Duration::from_mins(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("`{0}` has no address in the head")]
    NoAddress(NodeName),
    #[error("what answers there is not `{wanted}`, but `{found}`")]
    AnotherOne { wanted: NodeName, found: NodeName },
    #[error("what it handed over is not taken: {0}")]
    NotTaken(#[from] Untaken),
}

/// What is wrong with what another gateway handed over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Untaken {
    #[error(transparent)]
    Entry(#[from] BadEnvelope),
    #[error("it does not have all of the map {0}")]
    MapMissing(Digest),
    #[error("another answer")]
    OtherAnswer,
    #[error("a file does not grow")]
    DoesNotGrow,
    #[error(transparent)]
    File(#[from] FilesError),
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

/// Another gateway, and the scope by which this one is its member.
#[derive(Debug, Clone)]
pub(crate) struct OtherGateway {
    pub name: NodeName,
    pub addresses: Vec<GatewayAddress>,
    pub scope: Scope,
}

/// The other gateways that a head mandates, and where each is.
pub(crate) fn addresses_of(
    head: &identity::head::Head,
    own: &NodeName,
    now: identity::time::Timestamp,
) -> BTreeMap<NodeName, Vec<GatewayAddress>> {
    let active = head.mandates.iter().filter(|mandate| mandate.is_active(now) && mandate.gateway != *own);
    let addresses = |mandate: &identity::head::Mandate| {
        (mandate.gateway.clone(), mandate.addresses.iter().cloned().map(GatewayAddress::from).collect())
    };
    active.map(addresses).collect()
}

/// One connection: pulls what is lacking, then waits for news, until something breaks. `told` hears how far it is, and
/// how much is left.
pub(crate) async fn exchange(
    gateway: &Arc<Gateway>,
    peer: &OtherGateway,
    told: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<(), ExchangeError> {
    let mut line = connect(gateway, peer).await?;
    let mut heard = None;
    loop {
        hear_issuers(gateway, &mut line, &peer.name, &mut heard).await;
        let asked = tokio::time::Instant::now();
        let pulled = pull(gateway, &mut line, &peer.name, LONGEST_EXCHANGE, told).await?;
        // Whoever answers at once and has nothing to say is not asked without a pause.
        let rest = SHORTEST_ROUND.saturating_sub(asked.elapsed());
        if pulled == Pulled::Nothing {
            tokio::time::sleep(rest).await;
        }
        // An open connection outlives no mandate.
        line.check_by(&gateway.judgment.load().head).map_err(AskError::Call)?;
    }
}

/// Asks for what is known of issuing keys: at first, when the head has changed, and now and then.
async fn hear_issuers(
    gateway: &Arc<Gateway>,
    line: &mut Believed,
    peer: &NodeName,
    heard: &mut Option<(u64, tokio::time::Instant)>,
) {
    let version = gateway.judgment.load().head.version;
    if heard.is_some_and(|(then, at)| then == version && at.elapsed() < ISSUERS_EVERY) {
        return;
    }
    *heard = Some((version, tokio::time::Instant::now()));
    let asked = async {
        let answer = line.ask(Ask::Exchange, &ExchangeRequest::Issuers {}).await.map_err(AskError::Call)?;
        let ExchangeAnswer::Issuers { issuers } = answer else { return Err(unexpected(line)) };
        let from = peer.clone();
        Ok::<(), ExchangeError>(
            gateway.writer.run(move |tx| trust::merge_issuers(tx, &from, &issuers, clock::now())).await?,
        )
    };
    if let Err(why) = asked.await {
        tracing::debug!(gateway = %peer, why = describe(&why), "it does not say what it knows of issuing keys");
    }
}

/// Takes everything that another gateway has, and then the rest of what it names; does not wait.
pub(crate) async fn catch_up(
    gateway: &Arc<Gateway>,
    peer: &OtherGateway,
    told: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<(), ExchangeError> {
    let mut line = connect(gateway, peer).await?;
    while pull(gateway, &mut line, &peer.name, Seconds(0), told).await? == Pulled::MoreIsThere {}
    Ok(())
}

/// Whoever was off while the org moved on comes back at the other one, as any node does: its roots are signed, and its
/// node key brings a certificate that counts now.
pub(crate) async fn connect(gateway: &Gateway, peer: &OtherGateway) -> Result<Believed, ExchangeError> {
    let OtherGateway { name: peer, addresses, scope } = peer;
    if addresses.is_empty() {
        return Err(ExchangeError::NoAddress(peer.clone()));
    }
    let node = scope.node().map_err(AskError::from)?.ok_or(AskError::NotJoined)?;
    let svid = scope.seat(&node.principal()).svid().map_err(AskError::from)?;
    let svid = svid.filter(|svid| svid.is_good(clock::now()));
    let called = match &svid {
        Some(svid) => Some(Box::pin(call_known(scope, addresses, Some(&svid.own))).await),
        None => None,
    };
    let (line, known) = match called {
        None | Some(Err(AskError::Call(CallError::NotAccepted { alert: AlertKind::Other, .. }))) => {
            // One conversation after the other: the first brings the certificate for all.
            let _turn = gateway.peers.coming_back.lock().await;
            Box::pin(sync::connect(scope, addresses)).await?
        }
        Some(Err(AskError::Call(CallError::Knowledge {
            source: BadKnowledge::Head(BadHead::Forked { .. }), ..
        }))) => {
            // Operators decided at both, apart from each other. By what is known here the other is a gateway; what it
            // has is signed, and put together it counts at both.
            let known = scope.known().map_err(AskError::from)?.ok_or(AskError::NotJoined)?;
            let expect = keep::expect(scope, &known).map_err(AskError::from)?;
            let own = svid.as_ref().map(|svid| &svid.own);
            Box::pin(believe_one_of(addresses, &expect, own, Anchor::Behind(&known))).await?
        }
        Some(called) => called?,
    };
    if line.mandate.gateway != *peer {
        return Err(ExchangeError::AnotherOne { wanted: peer.clone(), found: line.mandate.gateway });
    }
    // Until the ledger has what this head decided, nothing is issued by the older one.
    if let Err(why) = show::heed(gateway, known.head_envelope).await {
        tracing::debug!(gateway = %peer, %why, "its head cannot be compared with the ledger yet");
    }
    Ok(line)
}

/// What a page brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pulled {
    Nothing,
    Something,
    /// Something, and there is more at once.
    MoreIsThere,
}

/// One page, and what it names.
async fn pull(
    gateway: &Arc<Gateway>,
    line: &mut Believed,
    peer: &NodeName,
    wait: Seconds,
    told: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Pulled, ExchangeError> {
    let from = peer.clone();
    let read = move |tx: &mut Transaction<'_>| {
        let forks = tx.keep(|tx| tx.ledger.branches(tx.state))?;
        Ok((tx.keep(|tx| tx.ledger.read_of(&from))?, forks))
    };
    let ((issued, reports), forks) = gateway.writer.run(read).await?;
    let frontier = gateway.state().await.frontier.clone();
    let tip = gateway.peers.tip_from(peer);
    let have = Have { frontier, issued, reports, tip, forks, wait };
    let answer = line.ask_patiently(Ask::Exchange, &ExchangeRequest::News(have), wait).await.map_err(AskError::Call)?;
    let ExchangeAnswer::News(news) = answer else { return Err(unexpected(line)) };
    let more = news.more;
    Ok(match (take(gateway, line, peer, *news, told).await?, more) {
        (false, _) => Pulled::Nothing,
        (true, true) => Pulled::MoreIsThere,
        (true, false) => Pulled::Something,
    })
}

/// False if all of it was here: an entry that follows none is told again with every answer.
async fn take(
    gateway: &Arc<Gateway>,
    line: &mut Believed,
    peer: &NodeName,
    news: Delta,
    told: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<bool, ExchangeError> {
    let org = gateway.about.org_id;
    let opened: Result<Vec<SignedEntry>, _> =
        news.entries.into_iter().chain(news.forks).map(|envelope| SignedEntry::open(org, envelope)).collect();
    let opened = opened.map_err(Untaken::from)?;
    for root in maps_named(&opened, org) {
        // A head is never held up: what it names can come later, from another.
        if let Err(why) = fetch(gateway, line, root).await {
            tracing::debug!(%root, why = describe(&why), "what is published could not be fetched yet");
        }
    }
    let (from, issued, reports) = (peer.clone(), news.issued, news.reports);
    let until = (news.issued_until, news.reports_until);
    let merge = move |tx: &mut Transaction<'_>| -> Result<bool, Refusal> {
        let added = tx.merge(opened)?;
        tx.merge_issued(&from, &issued, clock::now())?;
        tx.merge_reports(&reports)?;
        let read = tx.keep(|tx| tx.ledger.read_of(&from))?;
        if read != until {
            tx.keep(|tx| tx.ledger.keep_read_of(&from, until.0, until.1))?;
        }
        Ok(added > 0 || read != until)
    };
    let is_new = gateway.writer.run(merge).await?;
    keep_tip_from(gateway, peer, news.tip);
    gateway.peers.answered(peer, news.frontier.clone(), clock::now());
    let own = gateway.state().await.frontier.clone();
    told(own.entries(), lacking(&own, &news.frontier));
    show_published(gateway, line).await?;
    Ok(is_new)
}

/// If what the head in force names is not here yet, it is asked for again; while several signer sets claim one place, what
/// their heads name, too.
async fn show_published(gateway: &Arc<Gateway>, line: &mut Believed) -> Result<(), ExchangeError> {
    let (root, claimed) = {
        let state = gateway.state().await;
        (state.head().and_then(|record| record.head.members), state.claimed_maps())
    };
    for root in claimed {
        if let Err(why) = fetch(gateway, line, root).await {
            tracing::debug!(%root, why = describe(&why), "what is published could not be fetched yet");
        }
    }
    let shown = gateway.shelf.now().map(|published| published.root());
    if let Some(root) = root.filter(|root| shown != Some(*root)) {
        fetch(gateway, line, root).await?;
        gateway.writer.run(|tx: &mut Transaction<'_>| tx.show_published()).await?;
    }
    Ok(())
}

/// Fetches a map, its leaves and their manifests, each by its digest.
async fn fetch(gateway: &Arc<Gateway>, line: &mut Believed, root: Digest) -> Result<(), ExchangeError> {
    let whole = move |tx: &mut Transaction<'_>| tx.keep(|tx| Published::is_whole(tx.ledger, root));
    if gateway.writer.run(whole).await? || fetch_change(gateway, line, root).await? {
        return Ok(());
    }
    let mut from = 0;
    loop {
        let answer = line.ask(Ask::Exchange, &ExchangeRequest::Map { root, from }).await.map_err(AskError::Call)?;
        let ExchangeAnswer::Map { leaves, next } = answer else { return Err(unexpected(line)) };
        gateway.writer.run(move |tx| stage::keep_map(tx, root, from, &leaves)).await?;
        match next.filter(|next| *next > from) {
            Some(next) => from = next,
            None => break,
        }
    }
    fetch_blobs(gateway, line, root, move |tx| stage::lacking(tx, root)).await
}

/// Fetches what a map differs in from the one that is published here. False if it cannot be had so.
async fn fetch_change(gateway: &Arc<Gateway>, line: &mut Believed, root: Digest) -> Result<bool, ExchangeError> {
    let Some(base) = gateway.shelf.now().map(|published| published.root()) else { return Ok(false) };
    let answer = line.ask(Ask::Exchange, &ExchangeRequest::MapChange { root, base }).await;
    let Ok(ExchangeAnswer::MapChange(Some(change))) = answer else { return Ok(false) };
    let come = change.come.clone();
    fetch_blobs(gateway, line, root, move |tx| stage::lacking_of(tx, come.clone())).await?;
    let shelf = Arc::clone(&gateway.shelf);
    // Whoever lies about the difference is asked for the whole.
    let kept = gateway.writer.run(move |tx| stage::change(tx, &shelf, root, base, &change)).await;
    Ok(kept.is_ok())
}

async fn fetch_blobs(
    gateway: &Arc<Gateway>,
    line: &mut Believed,
    root: Digest,
    lacking: impl Fn(&mut Transaction<'_>) -> Result<Vec<Digest>, Refusal> + Clone + Send + 'static,
) -> Result<(), ExchangeError> {
    loop {
        let wanted = gateway.writer.run(lacking.clone()).await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let request = ExchangeRequest::Blobs { digests: wanted.clone() };
        let answer = line.ask(Ask::Exchange, &request).await.map_err(AskError::Call)?;
        let ExchangeAnswer::Blobs { blobs } = answer else { return Err(unexpected(line)) };
        let asked = |blob: &identity::text::Bytes| wanted.contains(&Digest::of(&blob.0));
        let blobs: Vec<_> = blobs.into_iter().filter(asked).collect();
        if blobs.is_empty() {
            return Err(Untaken::MapMissing(root).into());
        }
        gateway.writer.run(move |tx| stage::blobs(tx, &blobs)).await?;
    }
}

fn unexpected(line: &Believed) -> ExchangeError {
    AskError::Call(CallError::Unreadable { address: line.address().clone(), why: BadReply::Another }).into()
}

/// Keeps a word about its ledger that another gateway signed itself.
fn keep_tip_from(gateway: &Gateway, peer: &NodeName, tip: Envelope) {
    let judgment = gateway.judgment.load();
    let own = judgment.head.mandates.iter().filter(|mandate| mandate.gateway == *peer).any(|mandate| {
        let told = tip.open_signed_by::<Tip>(Some(gateway.about.org_id), &[mandate.voice]);
        told.is_ok_and(|told| told.voice == mandate.voice)
    });
    if own {
        gateway.peers.keep_tip_from(peer, tip);
    }
}
