//! An operator's tool asks. The same functions serve it here in-process and over the network.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::envelope::{Envelope, Payload as _};
use identity::head::{BadHead, Head};
use identity::id::{Correlation, Digest, OrgId};
use identity::key::PublicKey;
use identity::principal::Principal;
use identity::time::Timestamp;
use org::invite::admission::Claim;
use org::ledger::entry::{SignedEntry, Stamp};
use org::ledger::frontier::Frontier;
use org::ledger::replica::carried;
use org::ledger::step::SignerStep;
use org::refusal::{Objection, Refusal};
use wire::control::{Call, ControlAnswer, Observed, RecoveryView, SignedCall, Survey};

use crate::answer::operator::inbox::{self, Asker};
use crate::answer::operator::{files, stage, trust};
use crate::answer::{approve, recover};
use crate::gateway::Gateway;
use crate::limit::registry::Registry;
use crate::write::transaction::Transaction;

const OBSERVED_PER_PAGE: usize = 2_000;
/// So long an operator waits until the other gateways have what was decided.
const OTHERS_WAIT: Duration = Duration::from_secs(2);

/// Admits a call that a current signer signed for this very connection, and says who that is.
pub(crate) async fn admit(
    gateway: &Gateway,
    signed: &SignedCall,
    exporter: &[u8; 32],
) -> Result<(Call, Asker), Refusal> {
    let message = SignedCall::message(exporter, &signed.call.0);
    let holds = |key: PublicKey| key.verify(&message, &signed.signature.0).is_ok();
    let asker = {
        let state = gateway.state().await;
        // Those whom the recovery keys named may look, too, and who claims to be in force; what they may change is the
        // ledger's to say.
        let recovered = state.open_recoveries();
        let recovered = recovered.iter().map(|(step, _)| &step.to);
        let mut sets = std::iter::once(state.signer_set()).chain(recovered).chain(state.rivals());
        let in_force = state.signer_set().quorum.key_of(&signed.signer).filter(|key| holds(*key));
        let others = || sets.any(|set| set.quorum.key_of(&signed.signer).is_some_and(holds)).then_some(Asker::Outside);
        in_force.map(Asker::Signer).or_else(others)
    };
    Ok((wire::http::parse(&signed.call.0)?, asker.ok_or(Refusal::NotAnOperator)?))
}

pub async fn answer(gateway: &Gateway, call: Call, asker: Asker) -> Result<ControlAnswer, Refusal> {
    match call {
        Call::Survey { tip } => {
            let halt = gateway.confront(tip.as_ref()).await.err();
            let mark = gateway.writer.run(|tx| tx.keep(|tx| tx.ledger.highest_mark())).await?;
            survey(gateway, halt, mark).await
        }
        Call::Take { objects, correlation } => take(gateway, objects, correlation).await,
        Call::Observed { after } => {
            let registry = Arc::clone(&gateway.callers.registry);
            gateway.writer.run(move |tx| observed(tx, &registry, after)).await
        }
        Call::Recover { recovery } => {
            let due_at = recover::begin(gateway, recovery).await?;
            Ok(ControlAnswer::Recovering { due_at })
        }
        Call::Hand { entries } => hand(gateway, entries).await,
        Call::Beyond { frontier } => gateway.writer.run(move |tx| beyond(tx, &frontier)).await,
        Call::Missing { digests } => gateway.writer.run(move |tx| stage::missing(tx, &digests)).await,
        Call::Stage { blobs } => gateway.writer.run(move |tx| stage::blobs(tx, &blobs)).await,
        Call::StagePart { digest, size, from, bytes } => {
            gateway.writer.run(move |tx| stage::part(tx, digest, size, from, &bytes)).await
        }
        Call::StageMap { root, from, leaves } => {
            gateway.writer.run(move |tx| stage::map(tx, root, from, &leaves)).await
        }
        Call::StageChange { root, base, change } => {
            let shelf = Arc::clone(&gateway.shelf);
            gateway.writer.run(move |tx| stage::change(tx, &shelf, root, base, &change)).await
        }
        Call::MapChange { root, base } => {
            let change = gateway.writer.run(move |tx| stage::read_change(tx, root, base)).await?;
            Ok(ControlAnswer::MapChange(change))
        }
        Call::Map { root, from } => gateway.writer.run(move |tx| stage::read_map(tx, root, from)).await,
        Call::Blobs { digests } => gateway.writer.run(move |tx| stage::read_blobs(tx, &digests)).await,
        Call::Peers {} => Ok(peers(gateway).await),
        Call::Issuers {} => trust::issuers(gateway).await,
        Call::Spare { domain } => trust::draw(gateway, domain).await,
        Call::FilesMissing { digests } => files::missing(gateway, digests).await,
        Call::FilePart { digest, size, from, bytes } => files::add_part(gateway, digest, size, from, bytes).await,
        Call::FilesSweep { unused_for } => files::sweep(gateway, unused_for).await,
        Call::Reports { after } => gateway.writer.run(move |tx| stage::reports(tx, after)).await,
        Call::Waiting { after } => {
            let node = gateway.about.node.clone();
            gateway.writer.run(move |tx| approve::page(tx, &node, after)).await
        }
        Call::Leave { objects } => {
            let objects = inbox::sifted(&*gateway.state().await, &objects)?;
            gateway.writer.run(move |tx| inbox::leave(tx, asker, objects, clock::now())).await
        }
        Call::Inbox { after } => gateway.writer.run(move |tx| inbox::page(tx, asker, after, clock::now())).await,
        Call::Withdraw { digest } => gateway.writer.run(move |tx| inbox::withdraw(tx, asker, digest)).await,
    }
}

/// What does not hold in its own file, if anything: every entry is read afresh, with its signatures.
pub async fn damage(gateway: &Gateway) -> Result<Option<String>, Refusal> {
    gateway.writer.run(|tx| Ok(tx.ledger.check().err().map(|why| describe(&why)))).await
}

async fn survey(gateway: &Gateway, halt: Option<Refusal>, mark: Option<Envelope>) -> Result<ControlAnswer, Refusal> {
    let state = gateway.state().await;
    let tip = if halt.is_none() { Some(gateway.tip_of(&state)?) } else { None };
    let head = state.head().ok_or_else(|| Refusal::NotFound { what: "head".to_owned() })?;
    let waiting = state.open_recoveries().into_iter();
    let recovery = |(step, due_at): (&SignerStep, Timestamp)| RecoveryView { recovery: step.envelope.clone(), due_at };
    Ok(ControlAnswer::Survey(Box::new(Survey {
        frontier: state.frontier.clone(),
        head: head.envelope.clone(),
        signers: state.told_steps(1),
        tip,
        gateway: gateway.about.node.clone(),
        addresses: gateway.addresses(),
        halt,
        recoveries: waiting.map(recovery).collect(),
        mark,
        forks: state.judged.fold.forks.keys().copied().collect(),
    })))
}

async fn take(gateway: &Gateway, objects: Vec<Envelope>, correlation: Correlation) -> Result<ControlAnswer, Refusal> {
    let (org, now) = (gateway.about.org_id, clock::now());
    check_times(org, &objects, now)?;
    gateway.suspended.check_new(&objects, gateway.state().await.signer_set())?;
    files::check_named(gateway, org, &objects).await?;
    let node = gateway.about.node.clone();
    let take = move |tx: &mut Transaction<'_>| {
        tx.take(objects, Stamp { at: now, correlation })?;
        approve::forget_what_is_over(tx, &node, clock::now())?;
        Ok(tx.state.frontier.clone())
    };
    let written = gateway.writer.run(take).await?;
    // What operators decided is on two disks before they are told that it is so, if another gateway is there.
    gateway.peers.wait_for(&written, OTHERS_WAIT).await;
    Ok(ControlAnswer::Taken {})
}

async fn peers(gateway: &Gateway) -> ControlAnswer {
    let state = gateway.state().await;
    let mandates = state.head().into_iter().flat_map(|record| &record.head.mandates);
    let others = mandates.map(|mandate| mandate.gateway.clone()).filter(|name| *name != gateway.about.node);
    ControlAnswer::Peers { peers: gateway.peers.views(&state.frontier, others) }
}

/// What is dated in the future here was signed by a wrong clock, or this one is wrong: either way somebody must look,
/// for a head from the future is good for too long.
fn check_times(org: OrgId, objects: &[Envelope], now: Timestamp) -> Result<(), Refusal> {
    for dated in objects.iter().filter_map(|object| Some(object.peek::<Head>(Some(org)).ok()?.issued_at)) {
        if dated > now + org::state::head::AHEAD {
            let ahead = dated.since(now).roughly();
            let why = format!(
                "it is dated {dated}, {ahead} ahead: the gateway's clock says {now}; one of the two clocks is wrong, so \
                 compare both with NTP"
            );
            return Err(Refusal::Malformed { why });
        }
    }
    Ok(())
}

/// What this gateway saw of machines: the page after `after`, and where the next one begins.
fn observed(tx: &mut Transaction<'_>, registry: &Registry, after: Option<Digest>) -> Result<ControlAnswer, Refusal> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let page = tx.state.members.range((from, Bound::Unbounded)).take(OBSERVED_PER_PAGE);
    let page: Vec<_> = page.map(|(key, it)| (*key, it.claim().clone(), it.admission.invite)).collect();
    let next = page.last().filter(|_| page.len() == OBSERVED_PER_PAGE).map(|(key, ..)| *key);
    let mut nodes = BTreeMap::new();
    for (key, Claim { name, node_key, .. }, invite) in page {
        let issuance = tx.last_issuance(key, &Principal::node(&tx.state.name, &name))?;
        let alarm = tx.keep(|tx| tx.ledger.alarm(key))?.filter(|alarm| tx.heeds(alarm));
        let (alarm, conflict) = alarm.map(|alarm| (alarm.why, alarm.conflict)).unzip();
        let seen = Observed {
            last_seen: tx.keep(|tx| tx.ledger.seen(key))?,
            online_since: registry.online_since(&node_key),
            svid_expires_at: issuance.as_ref().map(|row| row.not_after),
            svid_serial: issuance.map(|row| row.serial),
            alarm,
            conflict: conflict.flatten(),
            reused: invite.map(|invite| tx.keep(|tx| tx.ledger.reuses(invite))).transpose()?.unwrap_or_default(),
        };
        nodes.insert(key, seen);
    }
    Ok(ControlAnswer::Observed { nodes, next })
}

/// Whoever has entries that this gateway lacks hands them over: they carry their own authority, as from another gateway.
async fn hand(gateway: &Gateway, entries: Vec<Envelope>) -> Result<ControlAnswer, Refusal> {
    let org = gateway.about.org_id;
    let opened: Result<Vec<SignedEntry>, _> =
        entries.into_iter().map(|envelope| SignedEntry::open(org, envelope)).collect();
    let opened = opened.map_err(|why| Refusal::LedgerRefuses { why: Objection::of(&why) })?;
    let brought: Vec<Envelope> = opened.iter().flat_map(|it| carried(&it.entry.action)).cloned().collect();
    check_times(org, &brought, clock::now())?;
    let merge = move |tx: &mut Transaction<'_>| {
        // A head that was kept back, complete, is no more welcome this way than by its maker's own hand.
        for head in brought.iter().filter(|it| it.kind() == Head::KIND && !tx.state.has_object(it)) {
            if let Err(why @ BadHead::DraftedEarlier { .. }) = tx.state.check_follows(head, clock::now()) {
                return Err(Refusal::LedgerRefuses { why: Objection::of(&why) });
            }
        }
        tx.merge(opened)
    };
    gateway.writer.run(merge).await?;
    Ok(ControlAnswer::Taken {})
}

/// What another replica does not have yet.
fn beyond(tx: &mut Transaction<'_>, theirs: &Frontier) -> Result<ControlAnswer, Refusal> {
    let (mut entries, more) = tx.keep(|tx| tx.ledger.beyond(tx.state, theirs))?;
    if !more {
        entries.extend(tx.keep(|tx| tx.ledger.branches(tx.state))?);
    }
    Ok(ControlAnswer::Beyond { entries, more })
}
