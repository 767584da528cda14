//! Who is a member, by this home's own fold, before it is published: a gateway's word is not enough.

use identity::principal::NodeName;
use identity::time::Timestamp;
use manifest::compile::MemberKnown;
use org::ledger::fold::Admitted;

use crate::node;
use crate::session::{Result, Session};

#[derive(Debug, Clone)]
pub struct Member {
    pub known: MemberKnown,
    /// Let in on a host name and an address, which can be forged.
    pub low: bool,
    /// By the gateway, as its word.
    pub last_seen: Option<Timestamp>,
}

/// Every member, in the order of names.
pub(super) async fn all(session: &mut Session) -> Result<Vec<Member>> {
    let observed = node::observed(session).await?;
    let state = session.folded().await?;
    let member = |(name, it): (&NodeName, &Admitted)| Member {
        known: MemberKnown { name: name.clone(), node_key: it.key, admission: it.admission },
        // Of whom operators listed, the entry need not be here.
        low: state.members.get(&it.key).is_some_and(|record| record.claim().is_low()),
        last_seen: observed.get(&it.key).and_then(|seen| seen.last_seen),
    };
    Ok(state.judged.fold.members.iter().map(member).collect())
}
