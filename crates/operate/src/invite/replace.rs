//! A node's key taken back and its name offered again, in one command: the cure for a clone or a restored disk.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::time::Seconds;
use ledger::views::NodeView;
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Uses};
use org::state::Standing;

use crate::invite::InviteWish;
use crate::invite::kinds::Terms;
use crate::key::SignerKeys;
use crate::session::desk::Desk;
use crate::session::{Made, OperateError, Session};

/// What became of a node that was replaced.
#[derive(Debug)]
pub struct Replaced {
    /// The head that revokes the old key; nothing if it was revoked before.
    pub head: Option<Made<u64>>,
    pub invite: Made<Invite>,
    pub code: InviteCode,
}

impl<D: Desk> Session<D> {
    /// Revokes the node's key, and makes an invite for one machine of this name with the same labels and roles.
    ///
    /// The invite comes first: cut off in between, nothing is lost, and running it again does the rest.
    pub async fn replace_node(
        &mut self,
        keys: &SignerKeys,
        node: &NodeView,
        (ttl, files): (Seconds, BTreeSet<Digest>),
    ) -> Result<Replaced, OperateError> {
        let over = node.state == Standing::Revoked;
        if !over {
            self.check_revocable(node)?;
        }
        let name = node.name.as_str().parse();
        let name = name.map_err(|_| OperateError::Unwise(format!("no invite can be made for `{}`", node.name)))?;
        let wish = InviteWish {
            label: format!("replaces {}", node.name),
            uses: Uses::Limited(1),
            ttl,
            names: vec![name],
            networks: Vec::new(),
            labels: node.labels.iter().cloned().collect(),
            roles: node.roles.iter().cloned().collect(),
            terms: Terms::default(),
            at: Vec::new(),
            files,
            approval: Approval::None,
            approvers: 1,
        };
        let Made { what: (invite, mut code), pending, roll } = self.create_invite(keys, &wish).await?;
        let head = if over { None } else { Some(self.revoke_node(keys, node).await?) };
        // Whoever joins with it knows that the old key is gone.
        code.head_floor = head.as_ref().map_or(self.known.head.head.version, |head| head.what);
        Ok(Replaced { head, invite: Made { what: invite, pending, roll }, code })
    }
}
