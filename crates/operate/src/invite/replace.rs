//! A node's key taken back and its name offered again, in one command: the cure for a clone or a restored disk.

use identity::head::Head;
use identity::time::Seconds;
use ledger::views::NodeView;
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Uses};
use org::state::Standing;

use crate::invite::kinds::InviteTerms;
use crate::invite::line::{Kit, Start};
use crate::invite::{InviteWish, NewInvite, create};
use crate::key::SignerKeys;
use crate::node::{check_revocable, revoke};
use crate::session::{Made, Result, Session, Unwise};

/// What became of a node that was replaced.
#[derive(Debug)]
pub struct Replaced {
    /// The head that revokes the old key; nothing if it was revoked before.
    pub head: Option<Made<Head>>,
    pub invite: Made<Invite>,
    pub code: InviteCode,
    pub start: Option<Start>,
}

/// Revokes the node's key, and makes an invite for one machine of this name with the same labels and roles.
///
/// The invite comes first: cut off in between, nothing is lost, and running it again does the rest.
pub async fn replace(
    session: &mut Session,
    keys: &SignerKeys,
    node: &NodeView,
    ttl: Seconds,
    kit: Option<Kit>,
) -> Result<Replaced> {
    let over = node.state == Standing::Revoked;
    if !over {
        check_revocable(session.head(), node)?;
    }
    let name = node.name.as_str().parse().map_err(|_| Unwise::NoInviteFor(node.name.clone()))?;
    let wish = InviteWish {
        label: format!("replaces {}", node.name),
        uses: Uses::Limited(1),
        ttl,
        names: vec![name],
        networks: Vec::new(),
        labels: node.labels.iter().cloned().collect(),
        roles: node.roles.iter().cloned().collect(),
        terms: InviteTerms::default(),
        at: Vec::new(),
        kit,
        after: u64::from(!over),
        approval: Approval::None,
        approvers: 1,
    };
    let Made { what: NewInvite { invite, mut code, start }, pending, roll } = create(session, keys, &wish).await?;
    let head = if over { None } else { Some(revoke(session, keys, node).await?) };
    // Whoever joins with it knows that the old key is gone.
    code.head_floor = head.as_ref().map_or(session.head().version, |head| head.what.version);
    Ok(Replaced { head, invite: Made { what: invite, pending, roll }, code, start })
}
