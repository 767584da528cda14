//! Going round a bad head: the next one follows an earlier one instead, and keeps only what was taken away since.

use std::collections::BTreeSet;

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::Leaf;
use identity::time::Timestamp;
use org::ledger::draft::{Meaning, Wish};
use org::ledger::fold::Leaves;
use org::ledger::heads::HeadRecord;
use org::ledger::heads::Held;

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::replica::ReplicaError;
use crate::replica::roll::Roll;
use crate::session::desk::Desk;
use crate::session::head::extend;
use crate::session::{Made, OperateError, Session};
use crate::signer::describe;
use crate::signer::weigh;

/// The way round: which head is followed, and what the next one would say differently from the one in force.
#[derive(Debug)]
pub struct Detour {
    pub follows: HeadRecord,
    leaves: Vec<Leaf>,
    /// The head in force when it was planned.
    pub goes_round: (u64, Digest),
    pub changes: Vec<String>,
    /// Machines, and classes of them, that are meant to be something else than now.
    pub remade: Vec<String>,
    pub roll: Roll,
    /// What was taken away since the head that is followed: nobody can give it back.
    pub stays: Vec<String>,
}

impl<D: Desk> Session<D> {
    /// Looks what it would be to follow this head, by its version or the beginning of its digest, instead of the one in force.
    /// Nothing is signed.
    pub async fn plan_around(&mut self, said: &str, now: Timestamp) -> Result<Detour, OperateError> {
        let follows = self.head_said(said).await?;
        let leaves = match follows.head.members {
            Some(root) => self.published_as(root).await?.leaves,
            None => Vec::new(),
        };
        let state = self.folded().await?;
        let own = &self.known.head;
        let mut detour = Detour {
            goes_round: (own.head.version, own.digest),
            follows,
            leaves,
            changes: Vec::new(),
            remade: Vec::new(),
            roll: Roll::default(),
            stays: Vec::new(),
        };
        let head = self.next_around(&detour, now)?;
        let (map, roll) = self.take_drafted().unwrap_or_default();
        let (own, then) = (&self.known.head.head, &detour.follows.head);
        let none = Leaves::new();
        let before = state.leaves().unwrap_or(&none);
        let classes = own.members.and_then(|root| state.replica.classes.get(&root)).cloned().unwrap_or_default();
        detour.remade = weigh::remade(&Meaning::of_map(before, classes), before, &head, &map);
        detour.changes = describe::head_changes(own, &head);
        detour.stays = describe::revoked(&then.revocations, &own.revocations);
        detour.stays.extend(describe::trust_changes(&then.trust, &head.trust));
        detour.roll = roll;
        Ok(detour)
    }

    pub async fn go_round(&mut self, keys: &SignerKeys, detour: &Detour) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_around(detour, now)?;
            Ok((Handed::of(session.seal(&head)?), head))
        })
        .await
    }

    fn next_around(&self, detour: &Detour, now: Timestamp) -> Result<Head, OperateError> {
        let own = &self.known.head;
        if detour.goes_round.1 != own.digest {
            let why = format!("head {} was published since this was planned: look again", own.head.version);
            return Err(OperateError::Unwise(why));
        }
        let mut state = self.fold.as_deref().ok_or(OperateError::LedgerBehind)?.clone();
        weigh::bring(&mut state, &detour.follows, &detour.leaves);
        let wish = Wish { around: Some(detour.follows.digest), ..Wish::default() };
        let head = self.next_head_by(&state, now, Cause::Refresh, (&wish, None), |head| {
            head.reverts = Some(detour.follows.head.version);
            extend(head, now);
        })?;
        if !head.mandates.iter().any(|mandate| mandate.is_active(now)) {
            let why = "no gateway of that head has a voice that was not closed since: nobody could follow";
            return Err(OperateError::Unwise(why.to_owned()));
        }
        Ok(head)
    }

    /// A head of the signers in force, other than the one in force.
    async fn head_said(&mut self, said: &str) -> Result<HeadRecord, OperateError> {
        let state = self.folded().await?;
        let prefix = said.to_ascii_lowercase();
        let by_digest = |head: &Held<'_>| prefix.len() >= 8 && head.digest().to_string().starts_with(&prefix);
        let by_version = |head: &Held<'_>| head.version().to_string() == said;
        let own = state.replica.heads.all().filter(|head| head.is_of(state.signer_set()));
        let found: Vec<Held<'_>> = own.filter(|head| by_version(head) || by_digest(head)).collect();
        let head = match found.as_slice() {
            [] => return Err(OperateError::NoSuch { what: "head of the signers in force", name: said.to_owned() }),
            [one] => *one,
            several => {
                let digests: Vec<String> = several.iter().map(|head| head.digest().to_string()).collect();
                let why =
                    format!("{} heads fit `{said}`: {}; say which by its digest", digests.len(), digests.join(", "));
                return Err(OperateError::Unwise(why));
            }
        };
        if head.digest() == self.known.head.digest {
            return Err(OperateError::Unwise(format!(
                "head {} is the one in force: name the last good one before it",
                head.version()
            )));
        }
        let (digest, org) = (head.digest(), self.known.org());
        let replica = Box::pin(self.replica()).await?;
        let found = replica.ledger.heads(&BTreeSet::from([digest])).map_err(ReplicaError::from)?;
        let envelope = found.into_iter().next().ok_or(OperateError::NotKept { what: "the head", digest })?;
        let head = envelope.peek(Some(org))?;
        Ok(HeadRecord { digest, envelope, head })
    }
}
