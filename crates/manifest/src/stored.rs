//! What one node should be: compiled, hashed into the head's members' map, kept and obeyed by the node.
//!
//! This is the stable contract between whoever compiles and whoever obeys. It has no time and no version, so that a
//! node for which nothing changed keeps its bytes.

mod svid;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use identity::id::Digest;
use identity::principal::glob::NameGlob;
use identity::principal::host::HostName;
use identity::principal::label::Label;
use identity::principal::{Address, Host, HostPort, Name, NodeName, Principal, PrincipalKind};
use identity::text::{BadText, Bytes};
use identity::text_form;
use identity::time::Seconds;
use serde::{Deserialize, Serialize};

pub use svid::{Account, KeyMode, ProgramSvid};

/// What this program writes and reads at most. Schema 2 added `files`, schema 3 what tunnels need, schema 4 `svids`.
pub const SCHEMA: u32 = 4;
/// The first that delivers files.
pub(crate) const SCHEMA_OF_FILES: u32 = 2;
/// The first that says how a node's tunnels behave. An agent below it has none.
pub(crate) const SCHEMA_OF_TUNNELS: u32 = 3;
/// The first that says how programs have their SVIDs. An agent below it refuses an SVID with a DNS name.
pub(crate) const SCHEMA_OF_SVIDS: u32 = 4;
/// No manifest comes near this.
pub const MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub schema: u32,
    /// What can break a node: it is on trial when it changes.
    pub runs: Runs,
    /// Who reaches what: it is swapped in place.
    pub access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// Where gateways answer. Empty: where this node has found them so far.
    pub gateways: Vec<Address>,
    /// How long an SVID lives, if shorter than the gateway's mandate allows.
    pub svid_life: Option<Seconds>,
    pub sync: SyncPolicy,
    pub apply: ApplyPolicy,
    pub labels: BTreeSet<Label>,
    /// Where other nodes reach this one.
    pub address: Option<HostPort>,
    /// Carries traffic for nodes without an address.
    pub relay: bool,
    /// Services that listen here, and that this node may hold an SVID for.
    pub services: BTreeMap<Name, Listener>,
    /// Users that this node may hold an SVID for.
    pub users: BTreeSet<Name>,
    /// What must hold under the new state.
    pub checks: BTreeMap<Name, Check>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<FileName, Delivered>,
    #[serde(default, skip_serializing_if = "TunnelPolicy::is_default")]
    pub tunnel: TunnelPolicy,
    /// SVIDs that are for programs: those of services and users that are at home here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub svids: BTreeMap<Principal, ProgramSvid>,
}

/// How a node's tunnels behave. What is not said is as it is by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelPolicy {
    #[serde(default)]
    pub transport: Transport,
    /// Where this node listens for others, if not on every address at the port of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<HostPort>,
    /// Where programs here ask for services.
    #[serde(default)]
    pub socks: Socks,
    /// Local ports that lead to one service each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forward: BTreeMap<HostPort, Forward>,
    /// Where names of services are resolved, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<HostPort>,
}

impl TunnelPolicy {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What carries streams to other nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Whichever of the two is better for the peer.
    #[default]
    Auto,
    Tls,
    Quic,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Socks {
    Off,
    At {
        addr: HostPort,
        /// Programs say by user and password for whom they ask.
        password: bool,
    },
}

impl Socks {
    /// Where programs look for it if nothing is said.
    pub fn usual_addr() -> HostPort {
        HostPort { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port: 1080 }
    }
}

impl Default for Socks {
    fn default() -> Self {
        Self::At { addr: Self::usual_addr(), password: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    pub service: Name,
    /// The user at home here for whom it asks; absent: the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncPolicy {
    /// How long a gateway may keep a node waiting for news.
    pub wait: Seconds,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self { wait: Seconds(50) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyPolicy {
    /// After this time what was not confirmed goes back.
    pub deadline: Seconds,
    pub confirm: Confirm,
}

impl Default for ApplyPolicy {
    fn default() -> Self {
        Self { deadline: Seconds(300), confirm: Confirm::Auto }
    }
}

/// What makes a new state stay, beside the declared checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// The node reaches a mandated gateway under it.
    Auto,
    /// That, and an operator says so.
    Operator,
    /// The checks alone: there is no gateway to reach.
    Offline,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    pub addr: HostPort,
    /// Tells the service who calls, in a PROXY header of version 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_caller: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub probe: Probe,
    pub timeout: Seconds,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    /// Something accepts connections there.
    Tcp(HostPort),
    /// A GET over plain HTTP answers with this status.
    Http { at: HostPort, path: String, status: u16 },
    /// A program, without a shell, ends with 0.
    Command(Vec<String>),
}

/// A relative path of plain parts: it cannot leave the folder it is put into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

impl FileName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FileName {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let plain = |part: &str| {
            (1..=100).contains(&part.len())
                && !part.starts_with(['.', '-'])
                && !part.ends_with('.')
                && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.@+".contains(&c))
        };
        if text.len() <= 200 && text.split('/').count() <= 8 && text.split('/').all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadText { form: "relative path (letters, digits and -_.@+, no part beginning with a dot)" })
        }
    }
}

text_form!(FileName);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    pub content: Bytes,
    pub executable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Who may call each service that listens here. A service without a line is called by nobody.
    pub callers: BTreeMap<Name, Vec<Caller>>,
    /// Services that principals here may call.
    pub targets: BTreeMap<Name, Target>,
    /// Nodes that carry traffic for those without an address.
    pub relays: BTreeMap<NodeName, HostPort>,
    /// Who gets nothing new from a node whose head is too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
}

/// When a head is past its time by more than the margin, these callers open no new streams here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stale {
    pub margin: Seconds,
    pub callers: Vec<Caller>,
}

/// One row of an access table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Caller {
    /// A user or a service, on the nodes where it is at home.
    Placed {
        principal: Principal,
        at: Vec<Place>,
    },
    Node(NodeName),
    /// Every node whose name is in the class.
    Class {
        class: Name,
        names: Vec<NameGlob>,
    },
    /// Every node.
    AnyNode,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    Node(NodeName),
    Class { class: Name, names: Vec<NameGlob> },
}

/// A service elsewhere, and who here may call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub places: Vec<Dial>,
    /// The node itself may. Not by name, so that all nodes of a class have one manifest.
    pub node: bool,
    /// Users and services at home here that may.
    pub callers: Vec<Principal>,
    /// The port that the service has at home: programs that resolve its name expect it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Where the service is. Without an address, by a relay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dial {
    pub at: Place,
    pub address: Option<HostPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    #[error("the manifest has schema {found}; this program knows up to {known}: upgrade freehold-node on this machine")]
    NewerSchema { found: u32, known: u32 },
    #[error("the manifest cannot be read: {0}")]
    Malformed(String),
    #[error("the manifest is too large")]
    TooLarge,
    #[error("the manifest is not the one that the head names")]
    OtherBytes,
}

/// Read alone, so that a newer schema is named as such even if the rest cannot be read.
#[derive(Deserialize)]
struct Marked {
    schema: u32,
}

impl Manifest {
    /// For a member that matches nothing: it keeps its identity and gets nothing.
    pub fn empty(schema: u32) -> Self {
        Self {
            schema,
            runs: Runs {
                gateways: Vec::new(),
                svid_life: None,
                sync: SyncPolicy::default(),
                apply: ApplyPolicy::default(),
                labels: BTreeSet::new(),
                address: None,
                relay: false,
                services: BTreeMap::new(),
                users: BTreeSet::new(),
                checks: BTreeMap::new(),
                files: BTreeMap::new(),
                tunnel: TunnelPolicy::default(),
                svids: BTreeMap::new(),
            },
            access: Access::default(),
        }
    }

    /// What a member has to whom the map gives nothing: the same bytes on every machine, of every version.
    pub fn nothing() -> Self {
        Self::empty(1)
    }

    /// One written form: what is hashed, sent and kept.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes())
    }

    /// Reads the manifest that a leaf names: exactly those bytes.
    pub fn read(bytes: &[u8], named: Digest) -> Result<Self, BadManifest> {
        if bytes.len() > MAX_BYTES {
            return Err(BadManifest::TooLarge);
        }
        if Digest::of(bytes) != named {
            return Err(BadManifest::OtherBytes);
        }
        let malformed = |why: serde_json::Error| BadManifest::Malformed(why.to_string());
        let read = serde_json::from_slice::<Self>(bytes);
        let schema = match &read {
            Ok(manifest) => manifest.schema,
            Err(_) => serde_json::from_slice::<Marked>(bytes).map_err(malformed)?.schema,
        };
        if schema > SCHEMA {
            return Err(BadManifest::NewerSchema { found: schema, known: SCHEMA });
        }
        read.map_err(malformed)
    }

    /// May this node hold an SVID for this principal?
    pub fn places(&self, principal: &Principal) -> bool {
        let name = |name: &Name| name.as_str() == principal.name();
        match principal.kind() {
            PrincipalKind::Node => false,
            PrincipalKind::User => self.runs.users.iter().any(name),
            PrincipalKind::Service => self.runs.services.keys().any(name),
        }
    }

    /// The DNS names that an SVID of this principal carries on this node.
    pub fn dns_names(&self, principal: &Principal) -> BTreeSet<HostName> {
        self.runs.svids.get(principal).map(|svid| svid.dns.clone()).unwrap_or_default()
    }
}

impl Access {
    /// May this principal, on that node, call the service that listens here?
    pub fn permits(&self, service: &Name, principal: &Principal, node: &NodeName) -> bool {
        self.rows_for(service, principal, node).next().is_some()
    }

    /// The rows that say so.
    pub fn rows_for<'a>(
        &'a self,
        service: &Name,
        principal: &'a Principal,
        node: &'a NodeName,
    ) -> impl Iterator<Item = &'a Caller> {
        let rows = self.callers.get(service).map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter(move |row| row.matches(principal, node))
    }
}

impl Caller {
    pub fn matches(&self, principal: &Principal, node: &NodeName) -> bool {
        let is_node = principal.node_name().is_some_and(|name| name == *node);
        match self {
            Self::Placed { principal: wanted, at } => {
                principal == wanted
                    && principal.kind() != PrincipalKind::Node
                    && at.iter().any(|place| place.covers(node))
            }
            Self::Node(name) => is_node && node == name,
            Self::Class { names, .. } => is_node && covered(names, node),
            Self::AnyNode => is_node,
        }
    }
}

impl Place {
    pub fn covers(&self, node: &NodeName) -> bool {
        match self {
            Self::Node(name) => name == node,
            Self::Class { names, .. } => covered(names, node),
        }
    }
}

fn covered(names: &[NameGlob], node: &NodeName) -> bool {
    names.iter().any(|glob| glob.matches(node.as_str()))
}

#[cfg(test)]
mod tests;
