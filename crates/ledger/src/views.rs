//! Nodes and invites as people see them, from what a ledger says; what a gateway observed is put beside it, as its word.

use std::collections::BTreeMap;

use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::principal::glob::NameGlob;
use identity::principal::host::HostGlob;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName, Principal, SignerName};
use identity::time::Timestamp;
use org::invite::{Approval, InviteKind, Uses};
use org::state::{InviteRecord, MemberRecord, Standing, State, SuspensionRecord};
use serde::Serialize;
use wire::control::{Observed, Reuse};

/// A lineage of thousands would fill the page: the newest are in `node list` too.
const MAX_LINEAGE: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuspensionView {
    pub by: SignerName,
    pub at: Timestamp,
    pub until: Timestamp,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeView {
    pub name: NodeName,
    pub state: Standing,
    pub spiffe_id: Principal,
    pub invite: Option<InviteId>,
    pub enrolled_at: Timestamp,
    pub node_key: PublicKey,
    pub admission: Digest,
    pub admitted_by: NodeName,
    pub labels: Vec<Label>,
    pub roles: Vec<Name>,
    pub left: bool,
    /// Why it does not count, if it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Who suspended it, also when it is over.
    pub suspensions: Vec<SuspensionView>,
    /// Let in on a host name and an address, which can be forged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub low: bool,
    #[serde(flatten)]
    pub observed: Observed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InviteView {
    pub id: InviteId,
    /// Absent for a token.
    #[serde(skip_serializing_if = "is_token")]
    pub kind: InviteKind,
    pub label: String,
    pub uses: Uses,
    pub spent: u32,
    pub created_at: Timestamp,
    pub created_by: String,
    pub expires_at: Timestamp,
    pub revoked: bool,
    /// Not enough of the signers in force have signed it.
    pub outdated: bool,
    pub names: Vec<NameGlob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostGlob>,
    pub networks: Vec<String>,
    pub labels: Vec<Label>,
    pub roles: Vec<Name>,
    /// How many signers must say yes to each machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<u8>,
    /// As the gateway saw it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<Reuse>,
    pub joined: Vec<JoinedView>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_token(kind: &InviteKind) -> bool {
    *kind == InviteKind::Token
}

/// One line of an invite's lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JoinedView {
    pub name: NodeName,
    pub at: Timestamp,
    pub state: Standing,
    pub node_key: Digest,
}

/// Every machine, in the order of names.
pub fn nodes(state: &State, mut observed: BTreeMap<Digest, Observed>) -> Vec<NodeView> {
    let view = |(key, member): (&Digest, &MemberRecord)| node(state, *key, member, observed.remove(key));
    let mut nodes: Vec<NodeView> = state.members.iter().map(view).collect();
    nodes.sort_by(|a, b| (&a.name, a.enrolled_at).cmp(&(&b.name, b.enrolled_at)));
    nodes
}

fn node(state: &State, key: Digest, member: &MemberRecord, observed: Option<Observed>) -> NodeView {
    let claim = member.claim();
    NodeView {
        name: claim.name.clone(),
        state: state.standing(member),
        spiffe_id: Principal::node(&state.name, &claim.name),
        invite: member.admission.invite,
        enrolled_at: member.admission.at,
        node_key: claim.node_key,
        admission: member.admission.digest,
        admitted_by: member.admission.gateway.clone(),
        labels: claim.labels.iter().cloned().collect(),
        roles: claim.roles.iter().cloned().collect(),
        left: member.left,
        waits: member.why.as_ref().map(ToString::to_string),
        suspensions: state.objects.suspensions_of(key).iter().map(suspension).collect(),
        low: claim.is_low(),
        observed: observed.unwrap_or_default(),
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

/// Every invite, in the order in which they were made.
pub fn invites(state: &State, observed: &BTreeMap<Digest, Observed>) -> Vec<InviteView> {
    let records = state.invites.ids().filter_map(|id| state.invite(*id)).map(|(_, record)| record);
    let mut invites: Vec<InviteView> = records.map(|record| invite(state, record, observed)).collect();
    invites.sort_by_key(|invite| (invite.created_at, invite.id));
    invites
}

fn invite(state: &State, record: &InviteRecord, observed: &BTreeMap<Digest, Observed>) -> InviteView {
    let invite = &record.invite;
    let all = || state.invites_of(invite.id);
    let joined = all().flat_map(|record| record.spent.keys()).take(MAX_LINEAGE).filter_map(|key| {
        let member = state.members.get(key)?;
        let (name, at) = (member.claim().name.clone(), member.admission.at);
        Some(JoinedView { name, at, state: state.standing(member), node_key: *key })
    });
    let mut joined: Vec<JoinedView> = joined.collect();
    joined.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
    // Nobody can show a bundle again that no machine had joined with.
    let reused =
        joined.iter().filter(|_| invite.kind == InviteKind::Bundle).filter_map(|it| observed.get(&it.node_key));
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
        revoked: state.revoked().invite_is_revoked(invite.id),
        names: invite.names.clone(),
        hosts: invite.hosts.clone(),
        networks: invite.networks.iter().map(ToString::to_string).collect(),
        labels: invite.labels.iter().cloned().collect(),
        roles: invite.roles.iter().cloned().collect(),
        approvers: (invite.approval == Approval::Human).then_some(invite.approvers),
        reused: reused.map(|it| it.reused.clone()).find(|reused| !reused.is_empty()).unwrap_or_default(),
        joined,
    }
}
