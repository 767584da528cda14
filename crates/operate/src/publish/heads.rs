//! The head that names a fleet: drafted on what is so at that moment, signed by the threshold, handed in as one entry.

use std::collections::BTreeSet;

use identity::head::{FleetRef, Head, InviteCut};
use identity::id::{Digest, InviteId};
use identity::time::Seconds;
use manifest::compile::Compiled;
use org::entry::{Action, Cause};

use super::published::nodes;
use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::listing::Basis;
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
        self.publish_on(keys, Basis::Fleet(named), |session, now| {
            session.check_plan(named, draft.planned_on)?;
            let head = session.next_head(now, |head| {
                head.fresh_until = now + draft.freshness;
                head.fleet = Some(draft.fleet.clone());
                let seen = session.survey.frontier.cuts();
                let closes = draft.closes.iter().map(|invite| InviteCut { invite: *invite, seen: seen.clone() });
                head.revocations.invites.extend(closes);
                for mandate in &mut head.mandates {
                    mandate.svid_ttl = draft.svid_life.unwrap_or(mandate.svid_ttl);
                }
                place_by_fleet(head);
            });
            Ok((Action::HeadPublish { head: session.seal(&head)?, cause: Cause::FleetPublish }, head))
        })
        .await
    }

    /// Whoever was quicker may have changed what the plan stood on: then it must be looked at again.
    pub(super) fn check_plan(&self, named: &Compiled, planned_on: Option<Digest>) -> Result<(), OperateError> {
        let head = &self.known.head.head;
        if head.members != planned_on {
            let why = format!(
                "head {} published another fleet, or lists other members, since this plan was made: look again",
                head.version
            );
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
pub(super) fn place_by_fleet(head: &mut Head) {
    head.placements.clear();
}
