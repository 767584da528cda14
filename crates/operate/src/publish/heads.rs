//! The head that names a fleet: drafted on what is so at that moment, signed by the threshold, handed in whole.

use std::collections::BTreeSet;

use identity::head::{Cause, FleetRef, Head};
use identity::id::{Digest, InviteId};
use identity::members::{Leaf, Meant, NodeLeaf};
use identity::time::{Seconds, Timestamp};
use manifest::compile::Compiled;
use org::ledger::draft::{Meaning, Wish};

use super::published::nodes;
use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

/// What a person was shown, and said yes to.
#[derive(Debug, Clone)]
pub struct FleetDraft {
    /// The map in force when the plan was made: on another one the plan would be another.
    pub planned_on: Option<Digest>,
    pub fleet: FleetRef,
    pub freshness: Seconds,
    /// The longest life of an SVID, if the fleet sets it.
    pub svid_life: Option<Seconds>,
    /// Standing patterns that are over.
    pub closes: BTreeSet<InviteId>,
}

impl<D: Desk> Session<D> {
    /// Publishes what was staged.
    pub async fn publish_fleet(
        &mut self,
        keys: &SignerKeys,
        named: &Compiled,
        draft: &FleetDraft,
    ) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.draft_fleet((named, draft), now)?;
            Ok((Handed::of(session.seal(&head)?), head))
        })
        .await
    }

    /// The head that publishes it.
    pub fn draft_fleet(&self, (named, draft): (&Compiled, &FleetDraft), now: Timestamp) -> Result<Head, OperateError> {
        self.check_plan(named, draft.planned_on)?;
        let wish = Wish { revoke_invites: draft.closes.iter().copied().collect(), ..Wish::default() };
        self.next_head_with(now, Cause::FleetPublish, (&wish, Some(&meaning(named))), |head| {
            head.fresh_until = now + draft.freshness;
            head.fleet = Some(draft.fleet.clone());
            for mandate in &mut head.mandates {
                mandate.svid_ttl = draft.svid_life.unwrap_or(mandate.svid_ttl);
            }
            head.placements.clear();
        })
    }

    /// Whoever was quicker may have changed what the plan stood on: then it must be looked at again.
    pub(super) fn check_plan(&self, named: &Compiled, planned_on: Option<Digest>) -> Result<(), OperateError> {
        let head = &self.known.head.head;
        if head.members != planned_on {
            let why = format!("head {} published another fleet since this plan was made: look again", head.version);
            return Err(OperateError::Unwise(why));
        }
        if let Some(leaf) = nodes(&named.leaves).find(|leaf| head.revocations.node_keys.contains(&leaf.node_key)) {
            return Err(OperateError::Unwise(format!(
                "`{}` was revoked since this plan was made: look again",
                leaf.name
            )));
        }
        Ok(())
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
