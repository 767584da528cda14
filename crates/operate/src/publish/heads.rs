//! Heads that renew what is so, or name another fleet: drafted on what is so at that moment, handed in whole.

use std::collections::BTreeSet;

use identity::head::{Cause, FleetRef, Head};
use identity::id::{Digest, InviteId};
use identity::members::{Leaf, Meant, NodeLeaf};
use identity::time::{Seconds, Timestamp};
use manifest::compile::Compiled;
use org::ledger::draft::{Meaning, Wish};

use crate::key::SignerKeys;
use crate::replica::published::nodes;
use crate::session::stage::stage;
use crate::session::timely::MANDATE;
use crate::session::{Aim, Made, NextHead, Result, Session, Unwise};

/// What a person was shown, and said yes to.
#[derive(Debug, Clone)]
pub(super) struct FleetDraft {
    /// The map in force when the plan was made: on another one the plan would be another.
    pub planned_on: Option<Digest>,
    pub fleet: FleetRef,
    pub freshness: Seconds,
    /// The longest life of an SVID, if the fleet sets it.
    pub svid_life: Option<Seconds>,
    /// Standing patterns that are over.
    pub closes: BTreeSet<InviteId>,
}

/// Hands it in, and publishes it. `told` hears how much is handed in, of how much.
pub(super) async fn publish(
    session: &mut Session,
    keys: &SignerKeys,
    named: &Compiled,
    draft: &FleetDraft,
    told: impl FnMut(usize, usize) + Send,
) -> Result<Made<Head>> {
    stage(session, named, told).await?;
    session.publish_head(keys, |session, now| fleet_head(session, named, draft, now)).await
}

/// The head that publishes it.
pub(super) fn fleet_head(session: &Session, named: &Compiled, draft: &FleetDraft, now: Timestamp) -> Result<NextHead> {
    check_plan(session.head(), named, draft.planned_on)?;
    let wish = Wish { revoke_invites: draft.closes.iter().copied().collect(), ..Wish::default() };
    let meaning = meaning(named);
    let aim = Aim { cause: Cause::FleetPublish, wish, meaning: Some(&meaning) };
    session.next_head(now, aim, |head| {
        head.fresh_until = now + draft.freshness;
        head.fleet = Some(draft.fleet.clone());
        for mandate in &mut head.mandates {
            mandate.svid_ttl = draft.svid_life.unwrap_or(mandate.svid_ttl);
        }
        head.placements.clear();
    })
}

/// Renews freshness and mandates; changes nothing else.
pub async fn refresh(session: &mut Session, keys: &SignerKeys) -> Result<Made<Head>> {
    session.publish_head(keys, |session, now| session.next_head(now, Cause::Refresh, |head| extend(head, now))).await
}

/// The mandates last as long as if they were given now.
pub(super) fn extend(head: &mut Head, now: Timestamp) {
    for mandate in &mut head.mandates {
        mandate.not_after = mandate.not_after.max(now + MANDATE);
    }
}

/// Whoever was quicker may have changed what the plan stood on: then it must be looked at again.
pub(super) fn check_plan(head: &Head, named: &Compiled, planned_on: Option<Digest>) -> Result<(), Unwise> {
    if head.members != planned_on {
        return Err(Unwise::OtherFleetSince(head.version));
    }
    match nodes(&named.leaves).find(|leaf| head.revocations.node_keys.contains(&leaf.node_key)) {
        Some(leaf) => Err(Unwise::RevokedSince(leaf.name.clone())),
        None => Ok(()),
    }
}

/// What the fleet means each machine to be: users and services are placed by manifests, no longer by the head.
pub(super) fn meaning(named: &Compiled) -> Meaning {
    let own = |leaf: &NodeLeaf| match &leaf.manifest {
        Meant::Own(manifest) => Some((leaf.name.clone(), *manifest)),
        Meant::Class(_) | Meant::Nothing => None,
    };
    let class = |leaf: &Leaf| match leaf {
        Leaf::Class(leaf) => Some(leaf.clone()),
        Leaf::Node(_) => None,
    };
    Meaning {
        own: nodes(&named.leaves).filter_map(own).collect(),
        classes: named.leaves.iter().filter_map(class).collect(),
    }
}
