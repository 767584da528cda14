//! A member checks in, or leaves.

use std::net::IpAddr;
use std::sync::Arc;

use ground::{clock, random};
use identity::envelope::Envelope;
use org::enroll::renew;
use org::invite::admission::Leave;
use org::ledger::entry::Action;
use org::member::Member;
use org::refusal::{Fault, Refusal};
use org::report::Report;
use org::state::{Standing, State};
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest, SyncAnswer, SyncRequest};
use wire::written::Written;

use crate::answer::enroll::check_alarm;
use crate::fault::OrFault as _;
use crate::gateway::Gateway;

/// What is told to many in the same words was written before.
pub(crate) type Answer = SyncAnswer<Written, Written>;

/// A node's news, and whether there is something in them that a node who waits would want to know.
#[derive(Debug)]
pub(crate) struct News {
    pub answer: Answer,
    pub is_new: bool,
}

/// The first check-in over mTLS makes a node a member. Every one brings what is new.
pub(crate) async fn check_in(
    gateway: &Arc<Gateway>,
    peer: &Member,
    request: CheckIn,
    source: IpAddr,
) -> Result<CheckedIn, Refusal> {
    let tip = come_in(gateway, peer, request.tip.as_ref(), source).await?;
    let state = gateway.state().await;
    let tip = tip.map_or_else(|| gateway.tip_of(&state), Ok)?;
    Ok(news(&state, &request, tip))
}

/// Notes that a member is there, and makes it one if it was not. The gateway's word about its chain, if that took a commit.
pub(crate) async fn come_in(
    gateway: &Arc<Gateway>,
    peer: &Member,
    shown: Option<&Envelope>,
    source: IpAddr,
) -> Result<Option<Envelope>, Refusal> {
    let now = clock::now();
    let (key, name) = (peer.node_key(), peer.node());
    // What this process said itself is so: it says only what is on disk.
    let shown = gateway.own_word(shown.filter(|tip| !gateway.has_said(tip)));
    gateway.check_halt()?;
    {
        let state = gateway.state().await;
        let standing = state.standing(renew::member_behind(&state, &key, name)?);
        let is_plain = standing == Standing::Member && !gateway.is_alarmed(key.digest());
        if is_plain && shown.as_ref().is_none_or(|shown| gateway.is_newest(&state, shown)) {
            // Nothing happened since: nothing to look up, and nothing to write that anybody waits for.
            gateway.note_seen(key, now);
            return Ok(None);
        }
    }
    let correlation = random::correlation().or_fault(Fault::Randomness)?;
    let name = name.clone();
    let written = gateway.writer.run_for_tip(move |tx| {
        if let Some(shown) = shown
            && !tx.confirms(&shown)?
        {
            return Ok(Err(Refusal::LedgerBehind));
        }
        let (node_key, member) = (key.digest(), renew::member_behind(tx.state, &key, &name)?);
        renew::check_standing(tx.state, member)?;
        let issued = tx.state.standing(member) == Standing::Issued;
        check_alarm(tx, node_key, Some(source), now)?;
        if issued {
            tx.append_own(Action::NodeJoin { node_key, name }, now, correlation)?;
        }
        Ok(Ok(()))
    });
    let (confirmed, tip) = written.await?;
    confirmed?;
    gateway.note_seen(key, now);
    Ok(Some(tip))
}

/// What the node does not have yet.
fn news(state: &State, request: &CheckIn, tip: Envelope) -> CheckedIn {
    let head = state.head().filter(|record| record.head.place() != (request.signers, request.head));
    CheckedIn {
        signers: state.told_steps(request.signers),
        head: head.map(|record| record.envelope.clone()),
        tip,
        recoveries: state.alarming_steps().into_iter().map(|step| step.envelope.clone()).collect(),
    }
}

/// Keeps what a node says of itself. Only its own words, and only bounded ones.
pub(crate) fn take_report(gateway: &Arc<Gateway>, peer: &Member, report: Option<Envelope>) -> Result<(), Refusal> {
    let Some(envelope) = report else {
        return Ok(());
    };
    let key = peer.node_key();
    let (report, kept): (Report, Envelope) =
        envelope.open_kept(Some(gateway.about.org_id), &[key].into()).map_err(|_| Refusal::BadProof)?;
    if report.node_key != key || report.node != *peer.node() {
        return Err(Refusal::BadProof);
    }
    if !report.is_plain() {
        return Err(Refusal::Malformed { why: "the report is not plain and short".to_owned() });
    }
    gateway.note_report(key.digest(), clock::now(), report.head.version, kept);
    Ok(())
}

/// What the node does not have yet, of what is so now.
pub(crate) async fn news_for(gateway: &Gateway, peer: &Member, request: &SyncRequest) -> Result<News, Refusal> {
    let state = gateway.state().await;
    let (told, tip) = (gateway.shelf.told(), gateway.written_tip_of(&state)?);
    let (signers, head) = (told.steps(&state, request.signers), told.head(request));
    let unlisted = told.unlisted(head.is_some(), request.listed);
    let published = gateway.shelf.now().filter(|published| unlisted == Some(published.root()));
    let key = peer.node_key().digest();
    let meant = state.is_meant(peer.node(), key);
    let listing = published.as_ref().and_then(|published| published.listing(peer.node(), meant));
    let wanted = published.as_ref().and_then(|published| published.wanted_by(peer.node(), meant));
    let wanted = wanted.filter(|digest| !request.have.contains(digest));
    let manifest = wanted.and_then(|digest| published.as_ref()?.written(digest));
    let consent = request.waits_for.and_then(|manifest| state.objects.consent_to(key, manifest)).map(Written::of);
    let (rivals, suspensions) = (told.rivals(request), gateway.suspended.told(request.suspended));
    let is_new = !signers.is_empty()
        || head.is_some()
        || rivals.is_some()
        || listing.is_some()
        || consent.is_some()
        || told.alarms(&request.sighted)
        || suspensions.is_some();
    let recoveries = told.alarming();
    let answer = SyncAnswer { signers, head, rivals, listing, manifest, consent, tip, recoveries, suspensions };
    Ok(News { answer, is_new })
}

pub(crate) async fn leave(gateway: &Gateway, peer: &Member, request: LeaveRequest) -> Result<Done, Refusal> {
    let now = clock::now();
    let org = Some(gateway.about.org_id);
    // A machine speaks for itself only.
    let leave: Leave = request.leave.open_signed_by(org, &[peer.node_key()]).map_err(|_| Refusal::BadProof)?;
    if leave.node_key != peer.node_key() {
        return Err(Refusal::BadProof);
    }
    // Whoever took its name would be taken for the gateway: the mandate ends first.
    if gateway.judgment.load().head.mandates.iter().any(|mandate| mandate.gateway == *peer.node()) {
        return Err(Refusal::NotPermitted { needed: "node that is no gateway".to_owned() });
    }
    let correlation = random::correlation().or_fault(Fault::Randomness)?;
    let name = peer.node().clone();
    gateway
        .writer
        .run(move |tx| tx.append_own(Action::NodeLeave { leave: request.leave, name }, now, correlation))
        .await?;
    Ok(Done {})
}
