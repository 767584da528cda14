//! A member checks in, or leaves.

use std::net::IpAddr;
use std::sync::Arc;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::text::Bytes;
use org::admission::Leave;
use org::entry::Action;
use org::member::Member;
use org::refusal::Refusal;
use org::renew;
use org::report::Report;
use org::state::{HeadRecord, Standing, State};
use org::suspended::mark;
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest, SyncAnswer, SyncRequest};

use crate::answer::enroll::check_alarm;
use crate::answer::gateway::Gateway;

/// The first check-in over mTLS makes a node a member. Every one brings what is new.
pub async fn check_in(
    gateway: &Arc<Gateway>,
    peer: &Member,
    request: CheckIn,
    source: IpAddr,
) -> Result<CheckedIn, Refusal> {
    let now = clock::now();
    let (key, name) = (peer.node_key(), peer.node().clone());
    // What this process said itself is so: it says only what is on disk.
    let shown = request.tip.as_ref().filter(|tip| !gateway.has_said(tip));
    let shown = gateway.own_word(shown);
    gateway.check_halt()?;
    {
        let state = gateway.state().await;
        let standing = state.standing(renew::member_behind(&state, &key, &name)?);
        let is_plain = standing == Standing::Member && !gateway.is_alarmed(key.digest());
        if is_plain && shown.as_ref().is_none_or(|shown| gateway.is_newest(&state, shown)) {
            // Nothing happened since: nothing to look up, and nothing to write that anybody waits for.
            gateway.note_seen(key, now);
            return Ok(news(&state, &request, gateway.tip_of(&state)?));
        }
    }
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let written = gateway.writer.run_for_tip(move |desk| {
        if let Some(shown) = shown
            && !desk.confirms(&shown)?
        {
            return Ok(Err(Refusal::LedgerBehind));
        }
        let (node_key, member) = (key.digest(), renew::member_behind(desk.state, &key, &name)?);
        renew::check_standing(desk.state, member)?;
        let issued = desk.state.standing(member) == Standing::Issued;
        check_alarm(desk, node_key, Some(source), now)?;
        if issued {
            desk.append_own(Action::NodeJoin { node_key, name }, now, correlation)?;
        }
        Ok(Ok(()))
    });
    let (confirmed, tip) = written.await?;
    confirmed?;
    gateway.note_seen(key, now);
    Ok(news(&*gateway.state().await, &request, tip))
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
pub fn take_report(gateway: &Arc<Gateway>, peer: &Member, report: Option<Envelope>) -> Result<(), Refusal> {
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
pub async fn news_for(gateway: &Gateway, peer: &Member, request: &SyncRequest) -> Result<SyncAnswer, Refusal> {
    let state = gateway.state().await;
    let tip = gateway.tip_of(&state)?;
    let CheckedIn { signers, head, tip, recoveries } =
        news(&state, &CheckIn { signers: request.signers, head: request.head, tip: None }, tip);
    let (instead, rivals) = beside(&state, request);
    let head = head.or(instead);
    let now = state.head().map(|record| &record.head);
    let is_new = |it: &&Head| head.is_some() || it.version > request.listed;
    let unlisted = now.filter(is_new).and_then(|head| head.members);
    let published = gateway.shelf.now().filter(|published| unlisted == Some(published.root()));
    let meant = state.is_meant(peer.node(), peer.node_key().digest());
    let listing = published.as_ref().and_then(|published| published.listing(peer.node(), meant));
    let wanted = published.as_ref().and_then(|published| published.wanted_by(peer.node(), meant));
    let wanted = wanted.filter(|digest| !request.have.contains(digest));
    let manifest = wanted.and_then(|digest| Some(Bytes(published.as_ref()?.manifest(digest)?.to_vec())));
    let consent = request.waits_for.and_then(|manifest| state.consent_to(peer.node_key().digest(), manifest));
    let suspensions = gateway.suspended.told(request.suspended);
    let consent = consent.cloned();
    Ok(SyncAnswer { signers, head, rivals, listing, manifest, consent, tip, recoveries, suspensions })
}

/// The head in force, if the node follows another one at its place that gives way; and rivals, if it was told of others: also
/// the head in force itself, if it is the one to give way.
fn beside(state: &State, request: &SyncRequest) -> (Option<Envelope>, Option<Vec<Envelope>>) {
    let at_its_place = |record: &&HeadRecord| record.head.place() == (request.signers, request.head);
    let own = state.head().filter(at_its_place).zip(request.digest);
    let instead = own.filter(|(own, theirs)| own.digest < *theirs).map(|(own, _)| own.envelope.clone());
    let gives_way = own.filter(|(own, theirs)| own.digest > *theirs).map(|(own, _)| own);
    let rivals: Vec<&HeadRecord> = state.ground.takers().chain(gives_way).collect();
    let told = mark(rivals.iter().map(|rival| rival.digest)) != request.rivals;
    (instead, told.then(|| rivals.into_iter().map(|rival| rival.envelope.clone()).collect()))
}

/// Is there something that a node who waits would want to know?
pub fn is_news(answer: &SyncAnswer, request: &SyncRequest) -> bool {
    let unseen = |recovery: &Envelope| !request.sighted.contains(&recovery.digest());
    !answer.signers.is_empty()
        || answer.head.is_some()
        || answer.rivals.is_some()
        || answer.listing.is_some()
        || answer.consent.is_some()
        || answer.recoveries.iter().any(unseen)
        || answer.suspensions.is_some()
}

pub async fn leave(gateway: &Gateway, peer: &Member, request: LeaveRequest) -> Result<Done, Refusal> {
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
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let name = peer.node().clone();
    gateway
        .writer
        .run(move |desk| desk.append_own(Action::NodeLeave { leave: request.leave, name }, now, correlation))
        .await?;
    Ok(Done {})
}
