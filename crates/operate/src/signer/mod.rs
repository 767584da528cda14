//! The signer set changes hands: someone comes, someone goes, the threshold moves.

pub mod home;
pub mod over;
pub mod recover;
pub mod describe;
pub mod weigh;
pub mod settle;
pub mod send;
pub mod cosign;

use identity::head::Cause;
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::{Quorum, Signer, SignerSet, Succession};
use identity::time::Timestamp;
use wire::known::Known;

use crate::key::SignerKeys;
use crate::session::{Made, OperateError, Result, Session, Unsigned, Unwise};

/// What is to change.
#[derive(Debug, Clone)]
pub enum Change {
    Add {
        name: SignerName,
        key: PublicKey,
    },
    Replace {
        old: SignerName,
        name: SignerName,
        key: PublicKey,
    },
    Remove {
        name: SignerName,
    },
    /// Only the threshold, or nothing at all: a set that signs its own successor is not lost.
    Keep,
}

/// The quorum after a change.
pub fn changed(quorum: &Quorum, change: &Change, threshold: Option<usize>) -> Result<Quorum> {
    let mut signers = quorum.signers().to_vec();
    let is_there = |name: &SignerName| quorum.key_of(name).is_some();
    let check_there =
        |name: &SignerName| if is_there(name) { Ok(()) } else { Err(OperateError::no_such("signer", name)) };
    match change {
        Change::Add { name, key } => {
            if is_there(name) {
                return Err(Unwise::SignerAlready(name.clone()).into());
            }
            signers.push(Signer { name: name.clone(), key: *key });
        }
        Change::Replace { old, name, key } => {
            check_there(old)?;
            if is_there(name) {
                return Err(Unwise::NeedsItsOwnName(name.clone()).into());
            }
            signers.retain(|signer| signer.name != *old);
            signers.push(Signer { name: name.clone(), key: *key });
        }
        Change::Remove { name } => {
            check_there(name)?;
            if signers.len() == 1 {
                return Err(Unwise::LastSigner(name.clone()).into());
            }
            signers.retain(|signer| signer.name != *name);
        }
        Change::Keep => {}
    }
    let threshold = threshold.unwrap_or_else(|| quorum.threshold());
    Ok(Quorum::new(threshold, signers).map_err(Unwise::Quorum)?)
}

/// A name stands for one key for ever: people know each other by it.
fn check_names(known: &Known, quorum: &Quorum) -> Result<(), Unwise> {
    let sets = known.signer_sets();
    let taken =
        |signer: &&Signer| sets.iter().any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key));
    match quorum.signers().iter().find(taken) {
        Some(Signer { name, .. }) => Err(Unwise::SignerNameTaken(name.clone())),
        None => Ok(()),
    }
}

/// The next set, signed by this one, with its first head, signed by the next.
pub async fn change(
    session: &mut Session,
    keys: &SignerKeys,
    change: &Change,
    threshold: Option<usize>,
) -> Result<Made<Quorum>> {
    session.publish(keys, |session, now| draft(session, change, threshold, now)).await
}

/// The step to the next set, and its first head.
pub fn draft(session: &Session, change: &Change, threshold: Option<usize>, now: Timestamp) -> Result<Unsigned<Quorum>> {
    let known = session.signers();
    let quorum = changed(&known.quorum, change, threshold)?;
    check_names(&session.known, &quorum)?;
    let body = Succession {
        version: known.version + 1,
        previous: known.id,
        also: Vec::new(),
        quorum: quorum.clone(),
        head: Some(session.head_digest()),
    };
    let signers = SignerSet::later(session.known.org(), body.version, quorum.clone()).as_ref();
    let next = session.next_head(now, Cause::SignersInstall, |head| head.signers = signers)?;
    Ok(Unsigned { objects: vec![session.seal(&body)?], next: Some(next), what: quorum })
}
