//! Gateways: added, moved to, renewed, removed. Their keys are made where they serve.

pub mod mandate;
pub mod papers;
pub mod reopen;
pub mod answering;
pub mod address;
pub mod add;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use identity::envelope::Envelope;
use identity::head::{Cause, Head, Mandate};
use identity::principal::glob::NameGlob;
use identity::principal::{NodeName, PrincipalKind};
use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::gateway::CheckedRequest;
use org::state::Standing;
use wire::control::{Call, ControlAnswer, PeerView};

use crate::gateway::mandate::{LASTS, SVID_TTL, check_own_name};
use crate::key::SignerKeys;
use crate::node;
use crate::session::reports::reports;
use crate::session::timely::MANDATE;
use crate::session::{DeskError, Made, NextHead, OperateError, Result, Session, Unsigned, Unwise};

/// What a new gateway may do.
#[derive(Debug, Clone)]
pub struct GatewayWish {
    pub names: Vec<NameGlob>,
    /// As the first gateway's, if nothing is said.
    pub svid_ttl: Option<Seconds>,
    pub lasts: Option<Seconds>,
}

/// Whether the machine that asks is a member, and may be a gateway.
async fn check_request(session: &mut Session, envelope: &Envelope) -> Result<(CheckedRequest, NodeView)> {
    let checked = CheckedRequest::open(session.known.org(), envelope).map_err(Unwise::Request)?;
    let (name, key) = (checked.request.node.clone(), checked.request.node_key);
    let node = node::find(session, &name).await?;
    if node.node_key != key {
        return Err(Unwise::OtherMachine { name, key: Box::new(node.node_key) }.into());
    }
    if node.state != Standing::Member {
        return Err(Unwise::NotAMember { name, state: node.state.word() }.into());
    }
    if node.low {
        return Err(Unwise::TooLow(name).into());
    }
    check_free(session.head(), &checked)?;
    Ok((checked, node))
}

fn check_free(head: &Head, checked: &CheckedRequest) -> Result<(), Unwise> {
    let name = &checked.request.node;
    if head.revocations.voices.contains(&checked.request.voice) {
        return Err(Unwise::VoiceClosed(name.clone()));
    }
    if head.mandates.iter().any(|mandate| mandate.gateway == *name) {
        return Err(Unwise::GatewayAlready(name.clone()));
    }
    let used = |mandate: &Mandate| {
        mandate.voice == checked.request.voice
            || mandate.identity_issuer == checked.identity.id
            || mandate.endpoint_issuer == checked.endpoint.id
    };
    if head.mandates.iter().any(used) { Err(Unwise::KeysInUse) } else { Ok(()) }
}

/// The mandate that it would get.
fn mandate_for(head: &Head, checked: &CheckedRequest, wish: &GatewayWish, now: Timestamp) -> Result<Mandate, Unwise> {
    let request = &checked.request;
    let usual = head.mandates.first().map_or(Seconds::DAY, |mandate| mandate.svid_ttl);
    let (ttl, lasts) = (wish.svid_ttl.unwrap_or(usual), wish.lasts.unwrap_or(MANDATE));
    if !SVID_TTL.contains(&ttl) || !LASTS.contains(&lasts) {
        return Err(Unwise::SvidOrMandateSpan);
    }
    let mandate = Mandate {
        gateway: request.node.clone(),
        voice: request.voice,
        identity_issuer: checked.identity.id,
        endpoint_issuer: checked.endpoint.id,
        hosts: request.hosts.clone(),
        kinds: BTreeSet::from([PrincipalKind::Node, PrincipalKind::User, PrincipalKind::Service]),
        names: wish.names.clone(),
        svid_ttl: ttl,
        not_before: now - Seconds::HOUR,
        not_after: now + lasts,
        addresses: request.addresses.clone(),
    };
    check_own_name(&mandate)?;
    Ok(mandate)
}

/// The mandate, with the head that gives it.
fn draft_addition(
    session: &Session,
    checked: &CheckedRequest,
    wish: &GatewayWish,
    now: Timestamp,
) -> Result<Unsigned<Mandate>> {
    check_free(session.head(), checked)?;
    let mandate = mandate_for(session.head(), checked, wish, now)?;
    let next = session.next_head(now, Cause::GatewayAdd { gateway: mandate.gateway.clone() }, |head| {
        head.mandates.push(mandate.clone());
    })?;
    Ok(Unsigned { objects: Vec::new(), next: Some(next), what: mandate })
}

pub(crate) fn mandate_of<'h>(head: &'h Head, gateway: &NodeName) -> Result<&'h Mandate> {
    head.mandate_of(gateway).ok_or_else(|| OperateError::no_such("gateway", gateway))
}

/// Has a gateway come before the others.
pub async fn move_first(session: &mut Session, keys: &SignerKeys, gateway: &NodeName) -> Result<Made<Head>> {
    mandate_of(session.head(), gateway)?;
    session
        .publish_head(keys, |session, now| {
            if !mandate_of(session.head(), gateway)?.is_active(now) {
                return Err(Unwise::MandateOver(gateway.clone()).into());
            }
            session.next_head(now, Cause::GatewayMove { gateway: gateway.clone() }, |head| {
                head.mandates.sort_by_key(|mandate| mandate.gateway != *gateway);
            })
        })
        .await
}

/// Takes the mandate away. What it wrote up to now stands; what it issued is worth nothing at once.
pub async fn remove(session: &mut Session, keys: &SignerKeys, gateway: &NodeName) -> Result<Made<Head>> {
    mandate_of(session.head(), gateway)?;
    session.publish_head(keys, |session, now| draft_removal(session, gateway, now)).await
}

/// The head that takes the mandate away.
pub fn draft_removal(session: &Session, gateway: &NodeName, now: Timestamp) -> Result<NextHead> {
    mandate_of(session.head(), gateway)?;
    let mut others = session.head().mandates.iter().filter(|mandate| mandate.gateway != *gateway);
    if !others.any(|mandate| mandate.is_active(now)) {
        return Err(Unwise::LastGateway(gateway.clone()).into());
    }
    session.next_head(now, Cause::GatewayRemove { gateway: gateway.clone() }, |head| {
        head.mandates.retain(|mandate| mandate.gateway != *gateway);
    })
}

/// How the gateway that is asked stands with the others: nobody says so where none is asked.
pub async fn peers(session: &mut Session) -> Result<Vec<PeerView>> {
    if session.is_alone() {
        return Ok(Vec::new());
    }
    match session.ask(Call::Peers {}).await? {
        ControlAnswer::Peers { peers } => Ok(peers),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

/// Gateways that had more than the one that is asked: how many entries, and when that was.
pub(crate) async fn had_by_peers(session: &mut Session) -> Result<Vec<(NodeName, u64, Timestamp)>> {
    let peers = peers(session).await?.into_iter().filter(|peer| peer.behind > 0);
    Ok(peers.filter_map(|peer| Some((peer.gateway, peer.behind, peer.last_exchange?))).collect())
}

/// Waits until every node has said that it has the head; those who have not. `told` hears who is left.
pub async fn until_known(
    session: &mut Session,
    version: u64,
    wait: Seconds,
    mut told: impl FnMut(&[NodeName]),
) -> Result<Vec<NodeName>> {
    let until = Instant::now() + Duration::from_secs(wait.0);
    loop {
        let not_yet = not_yet_at(session, version).await?;
        if not_yet.is_empty() || Instant::now() >= until {
            return Ok(not_yet);
        }
        told(&not_yet);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Members whose own last word names an earlier head, or who never said anything.
async fn not_yet_at(session: &mut Session, version: u64) -> Result<Vec<NodeName>> {
    let members = node::all(session).await?.into_iter().filter(|node| node.state == Standing::Member);
    let members: Vec<NodeView> = members.collect();
    let (reports, _) = reports(session, 0).await?;
    let last = |node: &NodeView| reports.get(&node.node_key.digest()).map(|heard| heard.report.head.version);
    let behind = members.into_iter().filter(|node| last(node).is_none_or(|last| last < version));
    Ok(behind.map(|node| node.name).collect())
}
