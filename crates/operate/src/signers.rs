//! The signer set changes hands: someone comes, someone goes, the threshold moves.

use identity::head::{Cause, Head};
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::{Quorum, Signer, SignerSet, Succession};
use identity::time::Timestamp;

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
            let (step, head) = session.draft_signers(change, threshold, now)?;
            Ok((Handed::with(vec![session.seal(&step)?], session.seal(&head)?), step.quorum))
        })
        .await
    }

    /// The step to the next set, and its first head.
    pub fn draft_signers(
        &self,
        change: &Change,
        threshold: Option<usize>,
        now: Timestamp,
    ) -> Result<(Succession, Head), OperateError> {
        let known = &self.known.signers;
        let quorum = changed(&known.quorum, change, threshold)?;
        self.check_names(&quorum)?;
        let (version, previous, head) = (known.version + 1, known.id, Some(self.known.head.digest));
        let next = SignerSet::later(self.known.org(), version, quorum.clone()).as_ref();
        let step = Succession { version, previous, also: Vec::new(), quorum, head };
        let head = self.next_head(now, Cause::SignersInstall, |head| head.signers = next)?;
        Ok((step, head))
    }
}
