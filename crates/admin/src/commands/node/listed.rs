//! A node as `list` and `show` tell of it.

use ledger::views::NodeView;
use operate::session::reports::Heard;
use org::state::Standing;
use serde::Serialize;

/// A node by this home's fold, what the gateway saw of it, and what it says of itself, by its own signature.
#[derive(Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub node: NodeView,
    pub report: Option<Heard>,
}

pub fn state(node: &NodeView) -> &'static str {
    match node.state {
        Standing::Revoked if node.left => "revoked (it left by itself)",
        Standing::Revoked => node.state.word(),
        _ if node.observed.alarm.is_some() => "suspended by the gateway",
        _ => node.state.word(),
    }
}
