//! One signer stops a node for a day, at once; the others can take their time.

use ground::{clock, random};
use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::suspend::{LONGEST, Suspension, is_plain};

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::session::desk::Desk;
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    pub async fn suspend(
        &mut self,
        keys: &SignerKeys,
        node: &NodeView,
        (span, reason): (Seconds, &str),
    ) -> Result<Timestamp, OperateError> {
        self.check_revocable(node)?;
        if span.0 == 0 || span > LONGEST {
            return Err(OperateError::Unwise(format!("one signer suspends for between 1s and {LONGEST}")));
        }
        if !is_plain(reason) {
            return Err(OperateError::Unwise("a reason is at most 200 characters of plain text".to_owned()));
        }
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let now = clock::now();
        // It cannot be repeated: one that a wrong clock dated would be over before it counts.
        self.check_clock(now)?;
        let now = self.latest(now);
        let body = Suspension {
            node_key: node.node_key.digest(),
            name: node.name.clone(),
            at: now,
            until: now + span,
            reason: reason.to_owned(),
        };
        // By the signer who speaks here: it is that one's word.
        let (_, key) = keys.author(self.signer(), &self.known.signers.quorum)?;
        let suspension = self.seal(&body)?.signed(key.as_ref()).map_err(crate::key::KeyError::from)?;
        let action = Handed::of(suspension);
        self.hand_over(action, correlation).await?;
        Ok(body.until)
    }
}
