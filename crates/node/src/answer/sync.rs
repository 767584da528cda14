//! A member checks in, or leaves.

use std::net::IpAddr;
use std::sync::Arc;

use ground::{clock, random};
use identity::envelope::Envelope;
use org::admission::Leave;
use org::entry::Action;
use org::member::Member;
use org::refusal::Refusal;
use org::renew;
use org::state::{Standing, State};
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest};

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
    let shown = gateway.own_word(request.tip.as_ref());
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
        renew::check_standing(desk.state, member, now)?;
        let issued = desk.state.standing(member) == Standing::Issued;
        check_alarm(desk, node_key, Some(source), now)?;
        if issued {
            desk.append_own((Action::NodeJoin { node_key, name }, node_key), now, correlation)?;
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
    let head = state.head().filter(|record| record.head.version != request.head);
    CheckedIn {
        signers: state.signer_chain(request.signers),
        head: head.map(|record| record.envelope.clone()),
        tip,
        recoveries: state.open_recoveries().map(|(record, _)| record.envelope.clone()).collect(),
    }
}

pub async fn leave(gateway: &Gateway, peer: &Member, request: LeaveRequest) -> Result<Done, Refusal> {
    let now = clock::now();
    let org = Some(gateway.about.org_id);
    // A machine speaks for itself only.
    let leave: Leave = request.leave.open_signed_by(org, &[peer.node_key()]).map_err(|_| Refusal::BadProof)?;
    if leave.node_key != peer.node_key() {
        return Err(Refusal::BadProof);
    }
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let (key, name) = (peer.node_key().digest(), peer.node().clone());
    gateway
        .writer
        .run(move |desk| desk.append_own((Action::NodeLeave { leave: request.leave, name }, key), now, correlation))
        .await?;
    Ok(Done {})
}
