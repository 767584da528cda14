//! Nodes and invites as people see them, from what a ledger says; what only a gateway knows is left to it.

use identity::id::Digest;
use identity::principal::Principal;
use org::invite::{Approval, Uses};
use org::state::{InviteRecord, MemberRecord, State, SuspensionRecord};
use wire::control::{InviteView, JoinedView, NodeView, SuspensionView};

/// A lineage of thousands would fill the page: the newest are in `node list` too.
const MAX_LINEAGE: usize = 1_000;

/// Without what was observed: when it was seen, what it was issued, what is odd about it.
pub fn node(state: &State, key: Digest, member: &MemberRecord) -> NodeView {
    let claim = member.claim();
    NodeView {
        name: claim.name.clone(),
        state: state.standing(member),
        spiffe_id: Principal::node(&state.name, &claim.name),
        invite: member.admission.invite,
        enrolled_at: member.admission.at,
        last_seen: None,
        svid_expires_at: None,
        svid_serial: None,
        node_key: claim.node_key,
        admission: member.admission.digest,
        admitted_by: member.admission.gateway.clone(),
        labels: claim.labels.iter().cloned().collect(),
        roles: claim.roles.iter().cloned().collect(),
        left: member.left,
        waits: member.why.as_ref().map(ToString::to_string),
        suspensions: state.suspensions_of(key).iter().map(suspension).collect(),
        conflict: None,
        alarm: None,
        low: claim.is_low(),
        reused: Vec::new(),
    }
}

fn suspension(record: &SuspensionRecord) -> SuspensionView {
    SuspensionView { by: record.by.clone(), at: record.at, until: record.until, reason: record.reason.clone() }
}

/// What a chain that has ended did not spend is not to be had any more: rights are signed anew.
fn uses(record: &InviteRecord) -> Uses {
    let ended = record.closed.iter().filter_map(|voice| record.spent_at.get(voice));
    let ended = ended.fold(0_u32, |sum, spent| sum.saturating_add(*spent));
    record.open_rights().map(|right| right.uses).fold(Uses::Limited(ended), plus)
}

const fn plus(a: Uses, b: Uses) -> Uses {
    match (a, b) {
        (Uses::Limited(a), Uses::Limited(b)) => Uses::Limited(a.saturating_add(b)),
        (Uses::Unlimited, _) | (_, Uses::Unlimited) => Uses::Unlimited,
    }
}

/// Without what was observed: bundles that were shown again.
pub fn invite(state: &State, record: &InviteRecord) -> InviteView {
    let invite = &record.invite;
    let all = || state.invites_of(invite.id);
    let joined = all().flat_map(|record| record.spent.keys()).take(MAX_LINEAGE).filter_map(|key| {
        let member = state.members.get(key)?;
        let (name, at) = (member.claim().name.clone(), member.admission.at);
        Some(JoinedView { name, at, state: state.standing(member), node_key: *key })
    });
    let mut joined: Vec<JoinedView> = joined.collect();
    joined.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
    InviteView {
        id: invite.id,
        kind: invite.kind,
        label: invite.label.clone(),
        uses: all().map(uses).fold(Uses::Limited(0), plus),
        spent: all().flat_map(|record| record.spent_at.values()).sum(),
        created_at: invite.created_at,
        created_by: state.signers_of_object(&record.envelope).join(", "),
        expires_at: invite.expires_at,
        outdated: state.is_outdated(record),
        revoked: state.revocations.invite_is_revoked(invite.id),
        names: invite.names.clone(),
        hosts: invite.hosts.clone(),
        networks: invite.networks.iter().map(ToString::to_string).collect(),
        labels: invite.labels.iter().cloned().collect(),
        roles: invite.roles.iter().cloned().collect(),
        approvers: (invite.approval == Approval::Human).then_some(invite.approvers),
        reused: Vec::new(),
        joined,
    }
}
