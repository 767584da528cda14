//! One signer stops a node for a day, at once; the others can take their time.

use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::suspend::{LONGEST, Suspension, is_plain};

use crate::key::SignerKeys;
use crate::node::check_revocable;
use crate::session::{Result, Session, Unwise};

/// Says until when.
pub async fn suspend(
    session: &mut Session,
    keys: &SignerKeys,
    node: &NodeView,
    span: Seconds,
    reason: &str,
) -> Result<Timestamp> {
    check_revocable(session.head(), node)?;
    if span.0 == 0 || span > LONGEST {
        return Err(Unwise::SuspensionSpan.into());
    }
    if !is_plain(reason) {
        return Err(Unwise::LongReason.into());
    }
    let said = session.say(keys, |session, now| {
        // It cannot be repeated: one that a wrong clock dated would be over before it counts.
        let at = session.latest(now);
        session.seal(&Suspension {
            node_key: node.node_key.digest(),
            name: node.name.clone(),
            at,
            until: at + span,
            reason: reason.to_owned(),
        })
    });
    Ok(said.await?.peek::<Suspension>(Some(session.known.org()))?.until)
}
