//! One signer lets a manifest stay that waits for an operator's word.

use ground::{clock, random};
use identity::id::Digest;
use identity::time::Timestamp;
use ledger::views::NodeView;
use org::report::Applied;
use org::state::Standing;
use org::state::consent::Consent;

use crate::key::{KeyError, SignerKeys};
use crate::pending::handed::Handed;
use crate::session::desk::Desk;
use crate::session::{OperateError, Session};

/// What a node has on trial, by its own signed word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    pub manifest: Digest,
    pub deadline: Timestamp,
    pub waits: Vec<String>,
}

impl<D: Desk> Session<D> {
    /// What this node has on trial now; an error if nothing.
    pub async fn on_trial(&mut self, node: &NodeView) -> Result<Waits, OperateError> {
        if node.state == Standing::Revoked {
            return Err(OperateError::Unwise(format!("`{}` is already revoked", node.name)));
        }
        let (reports, _) = self.reports(0).await?;
        let heard = reports.get(&node.node_key.digest()).filter(|heard| heard.report.node == node.name);
        match heard.map(|heard| &heard.report.applied) {
            None => Err(OperateError::Unwise(format!("`{}` has not reported anything yet", node.name))),
            Some(Applied::OnTrial { manifest, deadline, waits, .. }) => {
                Ok(Waits { manifest: *manifest, deadline: *deadline, waits: waits.clone() })
            }
            Some(Applied::Nothing | Applied::Settled { .. } | Applied::RolledBack { .. }) => {
                Err(OperateError::Unwise(format!("`{}` has nothing on trial: there is nothing to confirm", node.name)))
            }
        }
    }

    /// By one signer: it broadens nothing, the threshold has signed what stays.
    pub async fn consent(
        &mut self,
        keys: &SignerKeys,
        node: &NodeView,
        manifest: Digest,
    ) -> Result<Timestamp, OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let at = clock::now();
        self.check_clock(at)?;
        let body = Consent { node_key: node.node_key.digest(), name: node.name.clone(), manifest, at };
        let (_, key) = keys.author(self.signer(), &self.known.signers.quorum)?;
        let consent = self.seal(&body)?.signed(key.as_ref()).map_err(KeyError::from)?;
        self.hand_over(Handed::of(consent), correlation).await?;
        Ok(at)
    }
}
