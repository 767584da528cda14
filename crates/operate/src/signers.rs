//! The signer set changes hands: someone comes, someone goes, the threshold moves.

use identity::head::Cause;
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::{Quorum, Signer, SignerSet, Succession};

use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

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
pub fn changed(quorum: &Quorum, change: &Change, threshold: Option<usize>) -> Result<Quorum, OperateError> {
    let mut signers = quorum.signers().to_vec();
    let unwise = |why: String| Err(OperateError::Unwise(why));
    let is_there = |name: &SignerName| quorum.key_of(name).is_some();
    match change {
        Change::Add { name, key } => {
            if is_there(name) {
                return unwise(format!("`{name}` is a signer already; a name stands for one key for ever"));
            }
            signers.push(Signer { name: name.clone(), key: *key });
        }
        Change::Replace { old, name, key } => {
            if !is_there(old) {
                return Err(OperateError::NoSuch { what: "signer", name: old.to_string() });
            }
            if is_there(name) {
                return unwise(format!("`{name}` is a signer already: the new key needs a name of its own"));
            }
            signers.retain(|signer| signer.name != *old);
            signers.push(Signer { name: name.clone(), key: *key });
        }
        Change::Remove { name } => {
            if !is_there(name) {
                return Err(OperateError::NoSuch { what: "signer", name: name.to_string() });
            }
            if signers.len() == 1 {
                return unwise(format!("`{name}` is the last signer: nobody could decide anything any more"));
            }
            signers.retain(|signer| signer.name != *name);
        }
        Change::Keep => {}
    }
    let threshold = threshold.unwrap_or_else(|| quorum.threshold());
    Quorum::new(threshold, signers).map_err(|why| OperateError::Unwise(format!("{why}; choose another --threshold")))
}

impl<D: Desk> Session<D> {
    /// A name stands for one key for ever: people know each other by it.
    pub(crate) fn check_names(&self, quorum: &Quorum) -> Result<(), OperateError> {
        let sets = self.known.signer_sets();
        let taken = |signer: &&Signer| {
            sets.iter().any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key))
        };
        match quorum.signers().iter().find(taken) {
            Some(Signer { name, .. }) => {
                Err(OperateError::Unwise(format!("the signer's name `{name}` belongs to another key: choose another")))
            }
            None => Ok(()),
        }
    }

    /// The next set, signed by this one, with its first head, signed by the next.
    pub async fn change_signers(
        &mut self,
        keys: &SignerKeys,
        change: &Change,
        threshold: Option<usize>,
    ) -> Result<Made<Quorum>, OperateError> {
        self.publish(keys, |session, now| {
            let known = &session.known.signers;
            let quorum = changed(&known.quorum, change, threshold)?;
            session.check_names(&quorum)?;
            let body = Succession {
                version: known.version + 1,
                previous: known.id,
                also: Vec::new(),
                quorum: quorum.clone(),
                head: Some(session.known.head.digest),
            };
            let signers = session.seal(&body)?;
            let next = SignerSet::later(session.known.org(), body.version, quorum.clone()).as_ref();
            let head = session.next_head(now, Cause::SignersInstall, |head| head.signers = next)?;
            Ok((Handed::with(vec![signers], session.seal(&head)?), quorum))
        })
        .await
    }
}
