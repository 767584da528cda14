//! What a node says of itself: over a socket while its agent runs, from disk otherwise.

use std::io::Read as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ground::clock;
use identity::id::OrgId;
use identity::key::Sign as _;
use identity::principal::{Address, NodeName, OrgName, Principal};
use identity::time::Timestamp;
use org::report::{Refused, TrustTold};
use org::suspend::suspended::Suspended;
use serde::{Deserialize, Serialize};

use crate::agent::tunnel::view::TunnelView;
use crate::apply::view::ApplyView;
use crate::store::programs::{self, ProgramView};
use crate::store::scope::waiting::Waiting;
use crate::store::scope::{Scope, ScopeError, Unsound};
use crate::store::{refused, suspensions};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeStatus {
    pub org: OrgName,
    pub org_id: OrgId,
    pub name: NodeName,
    pub spiffe_id: Principal,
    /// `issued`, `member`, `expired`, `revoked`.
    pub state: String,
    pub svid_expires_at: Option<Timestamp>,
    pub head: u64,
    pub gateways: Vec<Address>,
    pub running: bool,
    pub last_check_in: Option<Timestamp>,
    pub problem: Option<String>,
    /// Who stopped this machine, until when, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
    /// Why the last offer was not believed.
    #[serde(default)]
    pub refused: Option<Refused>,
    /// What this node should be, and how far that is.
    #[serde(default)]
    pub applied: ApplyView,
    /// Which roots it goes by; absent until it knows which versions they are.
    #[serde(default)]
    pub trust: Option<TrustTold>,
    /// Which programs here have their SVIDs, and how that went.
    #[serde(default)]
    pub programs: Vec<ProgramView>,
    /// What carries streams for the services and users here.
    #[serde(default)]
    pub tunnel: TunnelView,
}

/// What a machine says of itself that a person has not approved yet.
#[derive(Debug, Clone, Serialize)]
pub struct WaitingStatus<'a> {
    /// `waiting`.
    pub state: &'static str,
    #[serde(flatten)]
    pub waiting: &'a Waiting,
}

impl<'a> WaitingStatus<'a> {
    pub const fn of(waiting: &'a Waiting) -> Self {
        Self { state: "waiting", waiting }
    }
}

impl NodeStatus {
    pub fn from_disk(scope: &Scope) -> Result<Self, ScopeError> {
        let node = scope.node()?;
        let known = scope.known()?;
        let (Some(node), Some(known)) = (node, known) else {
            return Err(ScopeError::Damaged { path: scope.folder.clone(), why: Unsound::Unfinished });
        };
        let svid = scope.seat(&node.principal()).svid()?;
        let trust = crate::ask::keep::trust_told(scope, &node, &known)?;
        let key = scope.node_key()?.public().digest();
        let state = if known.head.head.revocations.node_keys.contains(&key) {
            "revoked"
        } else if svid.as_ref().is_some_and(|svid| svid.not_after <= known.now(clock::now())) {
            "expired"
        } else if node.joined {
            "member"
        } else {
            "issued"
        };
        let suspended = suspensions::own(scope, &known)?;
        Ok(Self {
            spiffe_id: node.principal(),
            org: node.org,
            org_id: node.org_id,
            name: node.name,
            state: state.to_owned(),
            svid_expires_at: svid.map(|svid| svid.not_after),
            head: known.head.head.version,
            gateways: node.gateways,
            running: false,
            last_check_in: None,
            problem: crate::agent::trouble::trouble(&known, clock::now()),
            suspended,
            refused: refused::load(scope)?,
            applied: crate::apply::view::from_disk(&scope.folder),
            trust,
            programs: programs::views(scope),
            tunnel: TunnelView::default(),
        })
    }

    /// From the running agent; nothing if there is none.
    pub fn from_agent(scope: &Scope) -> Option<Self> {
        let mut stream = UnixStream::connect(scope.path("agent.sock")).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        // Nothing more will be said, so the answer need not wait for it.
        stream.shutdown(Shutdown::Write).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}
