//! A joiner waits for a person. What is kept of it is for that person to look at; the ledger alone says yes or no.

use std::net::IpAddr;
use std::sync::Arc;

use ground::clock;
use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::waiting::WaitingClaim;
use org::enroll::{self, Attempt, EnrollOutcome};
use org::invite::InviteKind;
use org::invite::admission::{Claim, Facts};
use org::invite::words::Words;
use org::refusal::Refusal;
use org::state::State;
use wire::control::{ControlAnswer, WaitingView};
use wire::enroll::EnrollRequest;

use crate::gateway::Gateway;
use crate::write::transaction::Transaction;

/// So many may wait under one invite, from one address, and in all: whoever holds a code can make claims as fast as keys.
const MOST_PER_INVITE: i64 = 256;
const MOST_PER_SOURCE: i64 = 64;
const MOST: i64 = 2_048;
/// Claim and facts together.
const LONGEST: usize = 16 << 10;
const VIEWS_PER_PAGE: u32 = 64;

/// While nobody has said yes or no, and it can still come in: until when, unless somebody does.
pub(crate) async fn waits_until(gateway: &Gateway, claim: &Envelope, source: IpAddr) -> Option<Timestamp> {
    let body: Claim = claim.peek(Some(gateway.about.org_id)).ok()?;
    let published = gateway.shelf.now().and_then(|published| published.key_of(&body.name));
    let state = gateway.state().await;
    let attempt =
        Attempt { claim: &body, claimed: claim.digest(), source, gateway: &gateway.about.node, now: clock::now() };
    enroll::check_name_is_free(&state, &body, published).ok()?;
    match enroll::consider(&state, attempt) {
        Ok(EnrollOutcome::Wait { invite }) => Some(invite.invite.expires_at),
        Ok(EnrollOutcome::Admit { .. } | EnrollOutcome::Again { .. }) | Err(_) => None,
    }
}

/// What a joiner tells of itself counts only by its own key, of this very claim, and only if it is short.
fn check_facts(org: OrgId, request: &EnrollRequest, node_key: PublicKey) -> Result<(), Refusal> {
    let size = |envelope: &Envelope| serde_json::to_string(envelope).map_or(usize::MAX, |text| text.len());
    let told = request.facts.as_ref().map_or(0, size);
    if size(&request.claim).saturating_add(told) > LONGEST {
        return Err(Refusal::Malformed { why: "the claim and its facts are too long".to_owned() });
    }
    let Some(facts) = &request.facts else {
        return Ok(());
    };
    let facts: Facts = facts.open_signed_by(Some(org), &[node_key]).map_err(|_| Refusal::BadProof)?;
    if facts.claim != request.claim.digest() {
        return Err(Refusal::BadProof);
    }
    if facts.is_plain() {
        Ok(())
    } else {
        Err(Refusal::Malformed { why: "the facts are not plain and short".to_owned() })
    }
}

/// Keeps a claim whose proof holds, and says that it waits.
pub(crate) async fn keep(gateway: &Gateway, request: &EnrollRequest, claim: Claim, source: IpAddr) -> Refusal {
    let (org, node, now) = (gateway.about.org_id, gateway.about.node.clone(), clock::now());
    if let Err(refusal) = check_facts(org, request, claim.node_key) {
        return refusal;
    }
    let (envelope, facts, shelf) = (request.claim.clone(), request.facts.clone(), Arc::clone(&gateway.shelf));
    let digest = envelope.digest();
    let (name, key) = (claim.name.clone(), claim.node_key.digest());
    let kept = gateway.writer.run(move |tx| {
        let attempt = Attempt { claim: &claim, claimed: digest, source, gateway: &node, now };
        let kind;
        let (invite, until) = match enroll::consider(tx.state, attempt)? {
            EnrollOutcome::Wait { invite } => {
                kind = invite.invite.kind;
                (invite.envelope.digest(), invite.invite.expires_at)
            }
            // Somebody said yes this moment: there is nothing to keep.
            EnrollOutcome::Admit { .. } | EnrollOutcome::Again { .. } => return Ok(false),
        };
        let published = shelf.now().and_then(|published| published.key_of(&claim.name));
        enroll::check_name_is_free(tx.state, &claim, published)?;
        let known = tx.keep(|tx| tx.ledger.has_claim(key))?;
        if !known {
            check_room(tx, invite, kind, source, now)?;
        }
        let row = WaitingClaim { claim: envelope, facts, invite, until, source, first_seen: now, last_seen: now };
        tx.keep(|tx| tx.ledger.keep_claim(key, &row))?;
        Ok(!known)
    });
    match kept.await {
        Ok(is_new) => {
            if is_new {
                tracing::info!(
                    %name, %source, words = %Words::of(digest),
                    "a machine waits for an operator: freehold node waiting"
                );
            }
            Refusal::AwaitingApproval { claim: digest }
        }
        Err(refusal) => refusal,
    }
}

/// What is over by the clock makes room first. Whoever knocks at a full room costs no more than that: the rest is swept
/// when operators look or write.
fn check_room(
    tx: &mut Transaction<'_>,
    invite: Digest,
    kind: InviteKind,
    source: IpAddr,
    now: Timestamp,
) -> Result<(), Refusal> {
    // Whoever proves nothing gets no more than half: holders of a code find a place.
    let most = if kind.is_proven() { MOST } else { MOST / 2 };
    let is_full = |[here, near, all]: [i64; 3]| here >= MOST_PER_INVITE || near >= MOST_PER_SOURCE || all >= most;
    if !is_full(tx.keep(|tx| tx.ledger.count_claims(invite, source))?) {
        return Ok(());
    }
    tx.keep(|tx| tx.ledger.forget_claims_until(now))?;
    if is_full(tx.keep(|tx| tx.ledger.count_claims(invite, source))?) { Err(Refusal::TooManyWaiting) } else { Ok(()) }
}

/// Forgets every claim that nobody need look at any more.
pub(crate) fn forget_what_is_over(tx: &mut Transaction<'_>, node: &NodeName, now: Timestamp) -> Result<(), Refusal> {
    let rows = tx.keep(|tx| tx.ledger.claims(None, u32::MAX))?;
    for (key, row) in rows {
        if is_over(tx.state, &row, node, now) {
            tx.keep(|tx| tx.ledger.forget_claim(key))?;
        }
    }
    Ok(())
}

/// Admitted, denied, under a name that another has by now, or under an invite that lets nobody in any more. One that was
/// approved stays until it has come.
fn is_over(state: &State, row: &WaitingClaim, node: &NodeName, now: Timestamp) -> bool {
    let Ok(claim) = row.claim.peek::<Claim>(Some(state.org)) else {
        return true;
    };
    let attempt = Attempt { claim: &claim, claimed: row.claim.digest(), source: row.source, gateway: node, now };
    match enroll::consider(state, attempt) {
        Ok(EnrollOutcome::Wait { .. } | EnrollOutcome::Admit { .. }) => {
            enroll::check_name_is_free(state, &claim, None).is_err()
        }
        Ok(EnrollOutcome::Again { .. }) | Err(_) => true,
    }
}

/// For an operator's tool: a page of those that wait.
pub(crate) fn page(tx: &mut Transaction<'_>, node: &NodeName, after: Option<Digest>) -> Result<ControlAnswer, Refusal> {
    let now = clock::now();
    if after.is_none() {
        forget_what_is_over(tx, node, now)?;
    }
    let rows = tx.keep(|tx| tx.ledger.claims(after, VIEWS_PER_PAGE))?;
    let full = rows.len() == usize::try_from(VIEWS_PER_PAGE).unwrap_or(usize::MAX);
    let next = rows.last().filter(|_| full).map(|(key, _)| *key);
    let view = |(_, row): (Digest, WaitingClaim)| {
        let invite = tx.state.invites.get(&row.invite)?.envelope.clone();
        let approval = tx.state.yes_to(row.claim.digest(), now).next().cloned();
        let WaitingClaim { claim, facts, source, first_seen, last_seen, .. } = row;
        Some(WaitingView { claim, facts, invite, approval, source, first_seen, last_seen })
    };
    Ok(ControlAnswer::Waiting { waiting: rows.into_iter().filter_map(view).collect(), next })
}
