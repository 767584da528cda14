//! One signer lets a manifest stay that waits for an operator's word.

use identity::id::Digest;
use identity::time::Timestamp;
use ledger::views::NodeView;
use org::report::Applied;
use org::state::Standing;
use org::state::consent::Consent;

use crate::key::SignerKeys;
use crate::session::reports::reports;
use crate::session::{Result, Session, Unwise};

/// What a node has on trial, by its own signed word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnTrial {
    pub manifest: Digest,
    pub deadline: Timestamp,
    pub waits: Vec<String>,
}

/// What this node has on trial now; an error if nothing.
pub async fn on_trial(session: &mut Session, node: &NodeView) -> Result<OnTrial> {
    if node.state == Standing::Revoked {
        return Err(Unwise::NodeRevoked(node.name.clone()).into());
    }
    let (reports, _) = reports(session, 0).await?;
    let heard = reports.get(&node.node_key.digest()).filter(|heard| heard.report.node == node.name);
    match heard.map(|heard| &heard.report.applied) {
        None => Err(Unwise::NoReport(node.name.clone()).into()),
        Some(Applied::OnTrial { manifest, deadline, waits, .. }) => {
            Ok(OnTrial { manifest: *manifest, deadline: *deadline, waits: waits.clone() })
        }
        Some(Applied::Nothing | Applied::Settled { .. } | Applied::RolledBack { .. }) => {
            Err(Unwise::NothingOnTrial(node.name.clone()).into())
        }
    }
}

/// By one signer: it broadens nothing, the threshold has signed what stays. Says when.
pub async fn consent(session: &mut Session, keys: &SignerKeys, node: &NodeView, manifest: Digest) -> Result<Timestamp> {
    let (node_key, name) = (node.node_key.digest(), &node.name);
    let body = |at: Timestamp| Consent { node_key, name: name.clone(), manifest, at };
    let said = session.say(keys, |session, now| session.seal(&body(now))).await?;
    Ok(said.peek::<Consent>(Some(session.known.org()))?.at)
}
