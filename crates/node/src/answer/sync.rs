//! A member checks in, or leaves.

use std::net::IpAddr;

use ground::{clock, random};
use org::admission::Leave;
use org::entry::Action;
use org::member::Member;
use org::refusal::Refusal;
use org::renew;
use org::state::Standing;
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest};

use crate::answer::enroll::check_alarm;
use crate::answer::gateway::Gateway;

/// The first check-in over mTLS makes a node a member. Every one brings what is new.
pub async fn check_in(
    gateway: &Gateway,
    peer: &Member,
    request: CheckIn,
    source: IpAddr,
) -> Result<CheckedIn, Refusal> {
    gateway.confront(request.tip.as_ref()).await?;
    let now = clock::now();
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let (key, name) = (peer.node_key(), peer.node().clone());
    let tip = gateway
        .writer
        .run(move |desk| {
            let (node_key, member) = (key.digest(), renew::member_behind(desk.state, &key, &name)?);
            renew::check_standing(desk.state, member)?;
            let issued = desk.state.standing(member) == Standing::Issued;
            check_alarm(desk, node_key, Some(source), now)?;
            if issued {
                desk.append_own(Action::NodeJoin { node_key, name }, now, correlation)?;
            }
            desk.keep(|desk| desk.ledger.log_seen(node_key, now))?;
            desk.tip(now)
        })
        .await?;
    let state = gateway.state();
    let head = state.head().filter(|record| record.head.version != request.head);
    Ok(CheckedIn {
        signers: state.signer_chain(request.signers),
        head: head.map(|record| record.envelope.clone()),
        tip,
    })
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
    let name = peer.node().clone();
    gateway
        .writer
        .run(move |desk| desk.append_own(Action::NodeLeave { leave: request.leave, name }, now, correlation))
        .await?;
    Ok(Done {})
}
