//! The signer keys at hand: opened when something must be signed, gone when the command ends.

use std::sync::Arc;

use ground::file::{self, Access, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use identity::envelope::Envelope;
use identity::key::{EdKey, Sign};
use identity::principal::SignerName;
use identity::signers::SignerSet;

use crate::folder::OperatorFolder;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Passphrase(#[from] NoPassphrase),
    #[error("the key file of `{0}` does not hold a signing key")]
    NotAKey(SignerName),
    #[error("no key of a current signer is here")]
    NoKey,
    #[error("{needed} signers must agree, and the keys of {here} are here")]
    NotEnough { needed: usize, here: usize },
    #[error("signing failed")]
    Sign(#[from] identity::key::BadKey),
}

/// Signer keys at hand, at most as many as the threshold needs: opened files, or keys that others hold for us.
#[derive(Debug)]
pub struct SignerKeys {
    keys: Vec<(SignerName, Arc<dyn Sign>)>,
    threshold: usize,
}

/// The purpose that is sealed into a signer's key file.
pub fn purpose(name: &SignerName) -> String {
    format!("freehold signer {name}")
}

pub fn save(
    folder: &OperatorFolder,
    name: &SignerName,
    key: &EdKey,
    passphrase: Option<&Passphrase>,
) -> Result<(), KeyError> {
    let file = sealed::seal(&key.seed()[..], &purpose(name), passphrase)?;
    Ok(file::write(&folder.signer_file(name), &file, Access::Private)?)
}

impl SignerKeys {
    /// Opens the keys of current signers that are here; the passphrase is asked for once.
    pub fn open(
        folder: &OperatorFolder,
        set: &SignerSet,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let mut remembered: Option<Passphrase> = None;
        let mut keys: Vec<(SignerName, Arc<dyn Sign>)> = Vec::new();
        let threshold = set.quorum.threshold();
        for name in folder.signers_here().into_iter().filter(|name| set.quorum.key_of(name).is_some()) {
            if keys.len() == threshold {
                break;
            }
            let bytes = file::read_secret(&folder.signer_file(&name))?;
            let passphrase = || -> Result<Passphrase, KeyError> {
                Ok(match &remembered {
                    Some(passphrase) => passphrase.clone(),
                    None => ask()?,
                })
            };
            let mut used = None;
            let seed = sealed::open(&bytes, &purpose(&name), || {
                let passphrase = passphrase()?;
                used = Some(passphrase.clone());
                Ok::<_, KeyError>(passphrase)
            })?;
            remembered = used.or(remembered);
            let seed = seed.as_slice().try_into().map_err(|_| KeyError::NotAKey(name.clone()))?;
            let key = EdKey::from_seed(seed);
            if set.quorum.key_of(&name) == Some(key.public()) {
                keys.push((name, Arc::new(key)));
            }
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(Self { keys, threshold }) }
    }

    /// The signer under whose name this operator's chain is written.
    pub fn author(&self, preferred: Option<&SignerName>) -> Result<(&SignerName, &Arc<dyn Sign>), KeyError> {
        let found = preferred.and_then(|name| self.keys.iter().find(|(here, _)| here == name));
        found.or_else(|| self.keys.first()).map(|(name, key)| (name, key)).ok_or(KeyError::NoKey)
    }

    /// Adds the signatures of the threshold.
    pub fn sign(&self, mut envelope: Envelope) -> Result<Envelope, KeyError> {
        if self.keys.len() < self.threshold {
            return Err(KeyError::NotEnough { needed: self.threshold, here: self.keys.len() });
        }
        for (_, key) in &self.keys {
            envelope.sign(key.as_ref())?;
        }
        Ok(envelope)
    }
}
