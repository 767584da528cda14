//! Going round a bad head (a revert): the next one follows an earlier one instead, and keeps only what was taken away
//! since.

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::Leaf;
use identity::time::Timestamp;
use org::ledger::draft::{Meaning, Wish};
use org::ledger::fold::Leaves;
use org::ledger::heads::HeadRecord;
use org::ledger::heads::KnownHead;

use super::heads::extend;
use crate::key::SignerKeys;
use crate::session::fold::whole_head;
use crate::session::{Aim, Made, NextHead, OperateError, Result, Session, Unwise, maps};
use crate::signer::weigh::Remade;
use crate::signer::{describe, weigh};

/// The way round: which head is followed, and what the next one would say differently from the one in force.
#[derive(Debug)]
pub struct Detour {
    pub follows: HeadRecord,
    leaves: Vec<Leaf>,
    /// The head in force when it was planned.
    pub goes_round: (u64, Digest),
    pub changes: Vec<String>,
    /// Machines, and classes of them, that are meant to be something else than now.
    pub remade: Vec<Remade>,
    /// What was taken away since the head that is followed: nobody can give it back.
    pub stays: Vec<String>,
}

/// Looks what it would be to follow this head, by its version or the beginning of its digest, instead of the one in force.
/// Nothing is signed.
pub async fn plan(session: &mut Session, said: &str, now: Timestamp) -> Result<Detour> {
    let follows = head_said(session, said).await?;
    let leaves = match follows.head.members {
        Some(root) => maps::published_as(session, root).await?.leaves,
        None => Vec::new(),
    };
    let state = session.folded().await?;
    let mut detour = Detour {
        goes_round: (session.head().version, session.head_digest()),
        follows,
        leaves,
        changes: Vec::new(),
        remade: Vec::new(),
        stays: Vec::new(),
    };
    let NextHead { head, map, .. } = draft(session, &detour, now)?;
    let (own, then) = (session.head(), &detour.follows.head);
    let none = Leaves::new();
    let before = state.leaves().unwrap_or(&none);
    let classes = own.members.and_then(|root| state.replica.classes.get(&root)).cloned().unwrap_or_default();
    detour.remade = weigh::remade(&Meaning::of_map(before, classes), before, &head, &map);
    detour.changes = describe::head_changes(own, &head);
    detour.stays = describe::revoked(&then.revocations, &own.revocations);
    detour.stays.extend(describe::trust_changes(&then.trust, &head.trust));
    Ok(detour)
}

pub async fn go(session: &mut Session, keys: &SignerKeys, detour: &Detour) -> Result<Made<Head>> {
    session.publish_head(keys, |session, now| draft(session, detour, now)).await
}

/// The head that goes round.
pub fn draft(session: &Session, detour: &Detour, now: Timestamp) -> Result<NextHead> {
    if detour.goes_round.1 != session.head_digest() {
        return Err(Unwise::HeadSince(session.head().version).into());
    }
    let mut state = session.state()?.clone();
    weigh::bring(&mut state, &detour.follows, &detour.leaves);
    let wish = Wish { around: Some(detour.follows.digest), ..Wish::default() };
    let next = session.next_head_on(&state, now, Aim::new(Cause::Refresh, wish), |head| {
        head.reverts = Some(detour.follows.head.version);
        extend(head, now);
    })?;
    let followed = next.head.mandates.iter().any(|mandate| mandate.is_active(now));
    if followed { Ok(next) } else { Err(Unwise::NobodyFollows.into()) }
}

/// A head of the signers in force, other than the one in force.
async fn head_said(session: &mut Session, said: &str) -> Result<HeadRecord> {
    let state = session.folded().await?;
    let prefix = said.to_ascii_lowercase();
    let by_digest = |head: &KnownHead<'_>| prefix.len() >= 8 && head.digest().to_string().starts_with(&prefix);
    let by_version = |head: &KnownHead<'_>| head.version().to_string() == said;
    let own = state.replica.heads.all().filter(|head| head.is_of(state.signer_set()));
    let found: Vec<KnownHead<'_>> = own.filter(|head| by_version(head) || by_digest(head)).collect();
    let head = match found.as_slice() {
        [] => return Err(OperateError::no_such("head of the signers in force", said)),
        [one] => *one,
        several => {
            let heads = several.iter().map(|head| head.digest()).collect();
            return Err(Unwise::SeveralHeads { said: said.to_owned(), heads }.into());
        }
    };
    if head.digest() == session.head_digest() {
        return Err(Unwise::NothingToGoRound(head.version()).into());
    }
    whole_head(session, head).await
}
