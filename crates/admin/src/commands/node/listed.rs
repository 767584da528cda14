//! A node as `list` and `show` tell of it.

use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::views::NodeView;
use operate::session::Session;
use operate::session::reports::{Heard, Reports};
use org::state::Standing;
use serde::Serialize;

/// A node by this home's fold, what the gateway saw of it, and what it says of itself, by its own signature.
#[derive(Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub node: NodeView,
    pub report: Option<Heard>,
    /// The gateway whose word all is that it saw: when, which SVID, what alarms it. Nothing if none answers.
    pub according_to: Option<NodeName>,
    /// Where no gateway answers: until when this home was told.
    pub as_of: Option<Timestamp>,
}

impl Listed {
    pub fn of(node: NodeView, reports: &mut Reports, session: &Session) -> Self {
        let report = reports.remove(&node.node_key.digest());
        Self { node, report, according_to: session.according_to().cloned(), as_of: session.as_of() }
    }
}

pub fn state(node: &NodeView) -> &'static str {
    match node.state {
        Standing::Revoked if node.left => "revoked (it left by itself)",
        Standing::Revoked => node.state.word(),
        _ if node.observed.alarm.is_some() => "suspended by the gateway",
        _ => node.state.word(),
    }
}
