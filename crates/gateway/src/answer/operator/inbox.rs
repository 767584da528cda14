//! The inbox: what one signer left for the others to sign. It lies here, and has no power: whoever signs folds and weighs it
//! as they would a file.

use std::collections::BTreeSet;

use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::time::{Seconds, Timestamp};
use ledger::waiting::inbox::{self, InboxRow};
use org::ledger::step::SignerStep;
use org::refusal::{Fault, Refusal};
use org::state::State;
use wire::control::{BYTES_PER_CALL, ControlAnswer, LeftView, waiting_digest};

use crate::fault::OrFault as _;
use crate::write::transaction::Transaction;

/// So much of one signer's lies here: whoever has one key of several fills no more than that.
const MOST_LEFT: u64 = 32;
const MOST_BYTES: u64 = 4 << 20;
/// Objects of one thing that waits; and how long it does.
const MOST_OBJECTS: usize = 64;
const KEPT_FOR: Seconds = Seconds(30 * 24 * 60 * 60);
/// Every row of every signer is looked at: no org has so many.
const MOST_ROWS: u32 = 4_096;

/// Who asks an operator's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A signer of the set in force, by this key.
    Signer(PublicKey),
    /// Whoever has the gateway's folder open: no signature is needed to look at one's own disk.
    Here,
    /// One whom recovery keys or a rival set name.
    Outside,
}

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed { why: why.to_owned() }
}

/// What was brought, with those signatures alone that may count once: of signers in force, or of a set that it leads to.
pub(crate) fn sifted(state: &State, objects: &[Envelope]) -> Result<Vec<Envelope>, Refusal> {
    if objects.is_empty() || objects.len() > MOST_OBJECTS {
        return Err(malformed("nothing, or too many objects at once"));
    }
    if serde_json::to_vec(objects).or_fault(Fault::Program)?.len() > BYTES_PER_CALL {
        return Err(malformed("it is too large for the inbox: hand it on as a file"));
    }
    let mut keys = state.signer_set().quorum.keys();
    let steps = objects.iter().filter_map(|object| SignerStep::read(state.org, object).ok());
    keys.extend(steps.flat_map(|step| step.to.quorum.keys()));
    Ok(objects.iter().map(|object| object.kept(&keys)).collect())
}

/// Keeps it as this signer left it, in place of what they had left of the same.
pub(crate) fn leave(
    tx: &mut Transaction<'_>,
    asker: Asker,
    objects: Vec<Envelope>,
    now: Timestamp,
) -> Result<ControlAnswer, Refusal> {
    let by = owner(tx.state, asker, &objects)?;
    sweep(tx, now)?;
    if is_over(tx.state, &objects) {
        return Err(malformed("it is done, or would not follow the head in force"));
    }
    let digest = waiting_digest(&objects);
    let size = serde_json::to_vec(&objects).or_fault(Fault::Program)?.len() as u64;
    let (count, bytes) = tx.keep(|tx| inbox::left_beside(tx.ledger, by, digest))?;
    if count >= MOST_LEFT || bytes + size > MOST_BYTES {
        return Err(Refusal::InboxFull { most: MOST_LEFT });
    }
    let row = InboxRow { digest, by, at: now, until: now + KEPT_FOR, objects };
    tx.keep(|tx| inbox::leave(tx.ledger, &row))?;
    Ok(ControlAnswer::Left {})
}

/// A page of what waits, of all signers in force.
pub(crate) fn page(
    tx: &mut Transaction<'_>,
    asker: Asker,
    after: u64,
    now: Timestamp,
) -> Result<ControlAnswer, Refusal> {
    check_signer(tx.state, asker)?;
    if after == 0 {
        sweep(tx, now)?;
    }
    let (mut left, mut next, mut size) = (Vec::new(), None, 0);
    let mut last = after;
    for (number, row) in tx.keep(|tx| inbox::left_after(tx.ledger, after, MOST_ROWS))? {
        let InboxRow { objects, by, at, until, .. } = row;
        size += serde_json::to_vec(&objects).or_fault(Fault::Program)?.len();
        if size > BYTES_PER_CALL && !left.is_empty() {
            next = Some(last);
            break;
        }
        last = number;
        left.push(LeftView { objects, by, at, until });
    }
    Ok(ControlAnswer::Inbox { left, next })
}

/// Nobody takes back what another left.
pub(crate) fn withdraw(tx: &mut Transaction<'_>, asker: Asker, digest: Digest) -> Result<ControlAnswer, Refusal> {
    check_signer(tx.state, asker)?;
    let mine = |row: &InboxRow| match asker {
        Asker::Signer(key) => row.by == key,
        Asker::Here => true,
        Asker::Outside => false,
    };
    for (number, row) in tx.keep(|tx| inbox::left_after(tx.ledger, 0, MOST_ROWS))? {
        if row.digest == digest && mine(&row) {
            tx.keep(|tx| inbox::drop_left(tx.ledger, number))?;
        }
    }
    Ok(ControlAnswer::Left {})
}

fn check_signer(state: &State, asker: Asker) -> Result<(), Refusal> {
    match asker {
        Asker::Signer(key) if state.signer_set().quorum.keys().contains(&key) => Ok(()),
        Asker::Here => Ok(()),
        // Whom only recovery keys or a rival set name may look at the org, and leaves nothing here.
        Asker::Signer(_) | Asker::Outside => Err(Refusal::NotAnOperator),
    }
}

/// Whose room it takes: the asker's own, who must have signed some of it. Who has the gateway's disk speaks for who has signed.
fn owner(state: &State, asker: Asker, objects: &[Envelope]) -> Result<PublicKey, Refusal> {
    check_signer(state, asker)?;
    let keys = state.signer_set().quorum.keys();
    let signed: BTreeSet<PublicKey> = objects.iter().flat_map(|object| object.signers_among(&keys)).collect();
    let by = match asker {
        Asker::Signer(key) => signed.contains(&key).then_some(key),
        Asker::Here => signed.first().copied(),
        Asker::Outside => None,
    };
    by.ok_or_else(|| malformed("whoever leaves something for the others has signed it"))
}

/// What is over makes room: its time has come, whoever left it signs no longer, it is done, or a head went by.
fn sweep(tx: &mut Transaction<'_>, now: Timestamp) -> Result<(), Refusal> {
    let keys = tx.state.signer_set().quorum.keys();
    for (number, row) in tx.keep(|tx| inbox::left_after(tx.ledger, 0, MOST_ROWS))? {
        if row.until <= now || !keys.contains(&row.by) || is_over(tx.state, &row.objects) {
            tx.keep(|tx| inbox::drop_left(tx.ledger, number))?;
        }
    }
    Ok(())
}

fn is_over(state: &State, objects: &[Envelope]) -> bool {
    let passed = |object: &Envelope| {
        let head = (object.kind() == Head::KIND).then(|| object.peek::<Head>(Some(state.org)).ok()).flatten();
        // One that cannot be read leads nowhere.
        object.kind() == Head::KIND
            && head.is_none_or(|head| state.head().is_some_and(|record| head.place() <= record.head.place()))
    };
    objects.iter().all(|object| state.has_object(object)) || objects.iter().any(passed)
}
