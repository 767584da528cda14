//! The head that names a fleet: drafted on what is so at that moment, signed by the threshold, handed in as one entry.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Cause, FleetRef, Head, InviteCut};
use identity::id::{Digest, InviteId};
use identity::principal::NodeName;
use identity::time::Seconds;
use manifest::compile::Compiled;
use org::entry::Action;

use super::published::{Published, nodes};
use crate::desk::Desk;
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
    /// Some member's leaf goes away, or has another key than before.
    pub ends_older: bool,
}

/// Must nodes stop believing older paths? So if a name loses its leaf, or gets another key.
pub fn ends_older(published: Option<&Published>, named: &Compiled) -> bool {
    let now: BTreeMap<&NodeName, Digest> = nodes(&named.leaves).map(|leaf| (&leaf.name, leaf.node_key)).collect();
    let mut before = published.into_iter().flat_map(Published::nodes);
    before.any(|leaf| now.get(&leaf.name) != Some(&leaf.node_key))
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
            session.check_plan(named, draft.planned_on)?;
            let head = session.next_head(now, Cause::FleetPublish, |head| {
                head.fresh_until = now + draft.freshness;
                head.fleet = Some(draft.fleet.clone());
                let seen = session.survey.frontier.cuts();
                let closes = draft.closes.iter().map(|invite| InviteCut { invite: *invite, seen: seen.clone() });
                head.revocations.invites.extend(closes);
                for mandate in &mut head.mandates {
                    mandate.svid_ttl = draft.svid_life.unwrap_or(mandate.svid_ttl);
                }
                name_members(head, named, draft.ends_older);
            });
            Ok((Action::publish(session.seal(&head)?), head))
        })
        .await
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

/// The fleet says it all: users and services are placed by manifests, no longer by the head.
pub(super) fn name_members(head: &mut Head, named: &Compiled, ends_older: bool) {
    head.members = Some(named.root);
    head.placements.clear();
    if ends_older {
        head.recent.clear();
    }
}
