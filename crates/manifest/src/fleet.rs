//! A fleet as it was declared, after every rule was checked: names exist, references lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::OrgId;
use identity::principal::glob::NameGlob;
use identity::principal::host::HostGlob;
use identity::principal::label::Label;
use identity::principal::{Address, HostPort, Name, NodeName, OrgName};
use identity::time::Seconds;
use ipnet::IpNet;

use crate::stored::{ApplyPolicy, Check, Delivered, FileName, ProgramSvid, SyncPolicy, TunnelPolicy};

/// Every node has it.
pub(crate) const ROLE_NODE: &str = "node";
/// Those who run the org. At least one user has it.
pub const ROLE_OPERATOR: &str = "operator";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    pub org: OrgSpec,
    pub nodes: BTreeMap<NodeName, MachineSpec>,
    pub classes: BTreeMap<Name, ClassSpec>,
    pub services: BTreeMap<Name, ServiceSpec>,
    pub users: BTreeMap<Name, UserSpec>,
    /// Role to the groups that it allows. `operator` is always among them.
    pub roles: BTreeMap<Name, BTreeSet<Name>>,
    /// The groups that the role `node` allows: every node has it, and nobody is given it.
    pub every_node: BTreeSet<Name>,
    pub groups: BTreeSet<Name>,
    pub invites: BTreeMap<Name, InviteSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgSpec {
    pub name: OrgName,
    pub id: OrgId,
    /// How long a head is fresh.
    pub freshness: Seconds,
    /// The longest life of an SVID that any node may ask for.
    pub svid_life: Option<Seconds>,
    /// The DNS names that SVIDs of services and users may carry.
    pub svid_dns: Vec<HostGlob>,
    pub stale: Option<StaleSpec>,
    /// What nodes and classes start from.
    pub defaults: Policy,
}

/// When a head is past its time by more than the margin, who has one of these roles opens nothing new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleSpec {
    pub margin: Seconds,
    pub roles: BTreeSet<Name>,
    /// The role `node`, too.
    pub every_node: bool,
}

/// What an org sets for all, and a class or node may set for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Empty: where the node has found them so far.
    pub gateways: Vec<Address>,
    pub svid_life: Option<Seconds>,
    pub sync: SyncPolicy,
    pub apply: ApplyPolicy,
    pub checks: BTreeMap<Name, Check>,
    pub files: BTreeMap<FileName, Delivered>,
    pub tunnel: TunnelPolicy,
}

/// A node, or every node of a class. What the org set is already merged in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSpec {
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    pub address: Option<HostPort>,
    pub relay: bool,
    pub policy: Policy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpec {
    pub names: Vec<NameGlob>,
    pub like: MachineSpec,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSpec {
    pub at: Vec<At>,
    pub addr: HostPort,
    pub groups: BTreeSet<Name>,
    /// What the service itself may call.
    pub roles: BTreeSet<Name>,
    /// It is told who calls.
    pub tells_caller: bool,
    /// How its program has the SVID, if it is to have it.
    pub svid: Option<ProgramSvid>,
}

/// Where something is: a node, or each node of a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    Node(NodeName),
    Class(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    pub roles: BTreeSet<Name>,
    pub nodes: Vec<At>,
    /// How the user's program has the SVID, if it is to have it.
    pub svid: Option<ProgramSvid>,
}

/// A standing pattern by which machines may join: by their names, or by their full host names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteSpec {
    pub names: Vec<NameGlob>,
    pub hosts: Vec<HostGlob>,
    /// How many operators must say yes to each machine; nobody, if it says so.
    pub approvers: Option<u8>,
    pub networks: Vec<IpNet>,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
}
