//! A member asks for its next SVID, or for that of a user or service that the head places on it.

use std::collections::BTreeSet;

use ground::clock;
use identity::certificate::SvidSubject;
use identity::head::Placement;
use identity::principal::PrincipalKind;
use org::member::Member;
use org::refusal::Refusal;
use wire::enroll::{Issued, RenewRequest};

use crate::answer::enroll::{Setting, log_and_issue};
use crate::answer::issue::{Applicant, make_svid};
use crate::gateway::Gateway;

pub(crate) async fn renew(
    gateway: &Gateway,
    peer: &Member,
    request: RenewRequest,
    setting: Setting,
) -> Result<Issued, Refusal> {
    let now = clock::now();
    let challenge = setting.challenge;
    if now >= challenge.expires_at {
        return Err(Refusal::NoChallenge);
    }
    let principal = request.principal;
    let node_key = peer.node_key().digest();
    let (is_low, is_meant) = {
        let state = gateway.state().await;
        // A machine that proved nothing provides nothing, whatever was published.
        let is_low = state.member(&peer.node_key()).is_some_and(|member| member.claim().is_low());
        (is_low, state.is_meant(peer.node(), node_key))
    };
    // Of the asker's word, only who it asks for counts: which names go with that, the fleet says.
    let names = match principal.kind() {
        PrincipalKind::Node => (principal == *peer.principal()).then(BTreeSet::new),
        PrincipalKind::User | PrincipalKind::Service => {
            let judgment = gateway.judgment.load();
            let by_head = |place: &Placement| place.principal == principal && place.node == *peer.node();
            let published = gateway.shelf.now();
            let by_fleet = published.and_then(|published| published.names_for(peer.node(), node_key, &principal));
            let by_head = judgment.head.placements.iter().any(by_head).then(BTreeSet::new);
            // The fleet may name for a while whom operators have revoked; other programs would believe a new SVID.
            let serves_low = principal.kind() == PrincipalKind::Service && is_low;
            // Who came under a name that operators wrote down for another has none of it.
            let may = is_meant && !serves_low && !judgment.head.revocations.principals.contains(&principal);
            by_fleet.or(by_head).filter(|_| may)
        }
    };
    let Some(dns) = names else {
        return Err(Refusal::NotPlaced { principal, node: peer.node().clone() });
    };
    let subject = SvidSubject { principal: &principal, dns: &dns };
    let applicant = Applicant { subject, node: peer.node(), node_key: peer.node_key() };
    let mut made = make_svid(gateway, applicant, &request.svid, challenge.not_after, now)?;
    made.row.source = Some(setting.source);
    log_and_issue(gateway, peer.node_key(), principal, made, now, false).await
}
