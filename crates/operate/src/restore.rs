//! After a restore: a new epoch of the ledger, and a word for each invite that may have been spent in what was lost.

use std::collections::BTreeSet;

use identity::head::{Epoch, Head, SignedHead};
use identity::id::InviteId;
use identity::principal::Author;
use org::entry::{Action, Cause, SignedEntry};
use org::invite::Uses;
use org::restore::Confirmation;
use wire::control::InviteView;

use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::listing::Basis;
use crate::session::{Made, OperateError, Session};

/// Heads that were published after the copy was taken are unknown here; so many of them are skipped.
const STRIDE: u64 = 1_000;

impl<D: Desk> Session<D> {
    /// Ends a beginning that was cut off after it was signed; its head, if the epoch has begun by now.
    pub async fn finish_epoch(&mut self) -> Result<Option<Head>, OperateError> {
        let begins =
            |signed: SignedEntry| matches!(signed.entry.action, Action::HeadPublish { cause: Cause::Restore, .. });
        if !self.outbox().is_some_and(begins) {
            return Ok(None);
        }
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        self.clear_outbox().await?;
        Ok((!self.is_behind()).then(|| self.known.head.head.clone()))
    }

    /// From where the ledger stands now. What was written later is given up, here and everywhere; trust bundles that its
    /// head names go in again with it.
    pub async fn begin_epoch(&mut self, keys: &SignerKeys) -> Result<Made<Head>, OperateError> {
        self.lacking_names().await?;
        self.publish_on(keys, Basis::AsDrafted, |session, now| {
            let number = session.known.head.head.epoch.number + 1;
            let after = session.survey.frontier.0.clone();
            let head = session.next_head(now, |head| {
                head.version += STRIDE;
                head.epoch = Epoch { number, after };
                if let Some(earlier) = session.earlier_fleet() {
                    head.reverts = Some(earlier.version);
                    head.members = earlier.members;
                    head.fleet = earlier.fleet;
                    head.placements = earlier.placements;
                }
            });
            Ok((Action::HeadPublish { head: session.seal(&head)?, cause: Cause::Restore }, head))
        })
        .await
    }

    /// The ledger's own head, if a fleet was published in what is given up: the ledger does not have that one's leaves
    /// and manifests, and nodes are told all of a fleet or nothing.
    pub fn earlier_fleet(&self) -> Option<Head> {
        let sets = self.known.signer_sets();
        let here = sets.iter().find_map(|set| SignedHead::open(set, &self.survey.head).ok())?.head;
        let now = &self.known.head.head;
        (here.version < now.version && here.members != now.members).then_some(here)
    }

    /// What this home saw of each author's chain beyond where the ledger stands: author, last seen, last here.
    pub fn lost(&self) -> Vec<(Author, u64, u64)> {
        let seen = self.remembered().into_iter().filter_map(|(author, place)| {
            let here = self.survey.frontier.place_of(&author).map_or(0, |here| here.seq);
            (place.seq > here).then_some((author, place.seq, here))
        });
        seen.collect()
    }

    /// The version of the head that the ledger has.
    pub fn survey_head(&self) -> Option<u64> {
        self.survey.head.peek::<Head>(Some(self.known.org())).ok().map(|head| head.version)
    }

    /// Invites that wait for a word since the restore, and could still be used.
    pub async fn unconfirmed(&mut self) -> Result<Vec<InviteView>, OperateError> {
        let now = ground::clock::now();
        let has_uses = |invite: &InviteView| match invite.uses {
            Uses::Limited(uses) => invite.spent < uses,
            Uses::Unlimited => true,
        };
        let waits =
            |invite: &InviteView| invite.unconfirmed && !invite.revoked && now < invite.expires_at && has_uses(invite);
        Ok(self.invites().await?.into_iter().filter(waits).collect())
    }

    pub async fn confirm_invites(
        &mut self,
        keys: &SignerKeys,
        invites: &BTreeSet<InviteId>,
    ) -> Result<Made<()>, OperateError> {
        self.publish(keys, |session, _| {
            let body = Confirmation { epoch: session.known.head.head.epoch.number, invites: invites.clone() };
            Ok((Action::InviteConfirm { confirmation: session.seal(&body)? }, ()))
        })
        .await
    }
}
