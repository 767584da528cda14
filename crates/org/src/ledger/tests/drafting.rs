//! The next head as a home of an honest operator drafts it, with what commands change in it.

use identity::head::Mandate;
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::time::Timestamp;

use crate::ledger::draft::{self, Draft, Intent, NotDrafted, draft_on};
use crate::ledger::replica::Replica;

/// Nothing: only the record and the time.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub revoke_keys: Vec<Digest>,
    pub revoke_invites: Vec<InviteId>,
    /// Voices of gateways that are removed.
    pub close: Vec<PublicKey>,
    /// Instead of what the gateway had.
    pub mandate: Vec<Mandate>,
    pub list: Vec<Digest>,
    pub around: Option<Digest>,
}

pub fn draft(replica: &Replica, now: Timestamp, wish: &Wish) -> Result<Draft, NotDrafted> {
    let ground = replica.ground(now).map_err(|frozen| NotDrafted::Frozen(Box::new(frozen)))?;
    let Wish { revoke_keys, revoke_invites, close, mandate, list, around } = wish.clone();
    let wish = draft::Wish { revoke_keys, revoke_invites, list, around };
    let intent = Intent { wish: &wish, meaning: None };
    draft_on(replica, &ground, &replica.fold(&ground), now, intent, |head| {
        let stays =
            |known: &Mandate| !close.contains(&known.voice) && mandate.iter().all(|it| it.gateway != known.gateway);
        head.mandates.retain(stays);
        head.mandates.extend(mandate);
    })
}
