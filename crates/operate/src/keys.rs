//! The signer keys at hand: opened when something must be signed, gone when the command ends.

use std::sync::Arc;

use ground::file::{self, Access, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use identity::envelope::Envelope;
use identity::key::{EdKey, PublicKey, Sign};
use identity::principal::SignerName;
use identity::signers::{Quorum, SignerSet};

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
    #[error("signing failed")]
    Sign(#[from] identity::key::BadKey),
}

/// Signer keys at hand, at most as many as the threshold needs: opened files, or keys that others hold for us.
#[derive(Debug)]
pub struct SignerKeys {
    keys: Vec<(SignerName, Arc<dyn Sign>)>,
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
    /// Opens the keys of current signers that are here; the passphrase is asked for once. Where none is known to be
    /// current, all: this home may not have heard yet that its signer is.
    pub fn open(
        folder: &OperatorFolder,
        set: &SignerSet,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let here = folder.signers_here();
        let current: Vec<SignerName> = here.iter().filter(|name| set.quorum.key_of(name).is_some()).cloned().collect();
        let enough = if current.is_empty() { here.len() } else { set.quorum.threshold() };
        Self::open_named(folder, if current.is_empty() { here } else { current }, enough, ask)
    }

    /// Opens every key that is here.
    pub fn open_all(
        folder: &OperatorFolder,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let here = folder.signers_here();
        let enough = here.len();
        Self::open_named(folder, here, enough, ask)
    }

    /// The public half of one key that is here.
    pub fn public_key(
        folder: &OperatorFolder,
        name: &SignerName,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<PublicKey, KeyError> {
        let opened = Self::open_named(folder, vec![name.clone()], 1, ask)?;
        opened.keys.first().map(|(_, key)| key.public()).ok_or(KeyError::NoKey)
    }

    /// Opens the keys of anybody in these quorums: someone who comes or goes signs in two roles.
    pub fn open_for(
        folder: &OperatorFolder,
        quorums: &[Quorum],
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let wanted = |name: &SignerName| quorums.iter().any(|quorum| quorum.key_of(name).is_some());
        let names: Vec<SignerName> = folder.signers_here().into_iter().filter(wanted).collect();
        let enough = names.len();
        Self::open_named(folder, names, enough, ask)
    }

    fn open_named(
        folder: &OperatorFolder,
        names: Vec<SignerName>,
        enough: usize,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let mut remembered: Option<Passphrase> = None;
        let mut keys: Vec<(SignerName, Arc<dyn Sign>)> = Vec::new();
        for name in names.into_iter().take(enough) {
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
            keys.push((name, Arc::new(key)));
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(Self { keys }) }
    }

    /// The signer under whose name this operator's chain is written: one of `quorum`.
    pub fn author(
        &self,
        preferred: Option<&SignerName>,
        quorum: &Quorum,
    ) -> Result<(&SignerName, &Arc<dyn Sign>), KeyError> {
        let fits = |(name, key): &&(SignerName, Arc<dyn Sign>)| quorum.key_of(name) == Some(key.public());
        let mut fitting = self.keys.iter().filter(fits);
        let found = self.keys.iter().filter(fits).find(|(name, _)| Some(name) == preferred);
        found.or_else(|| fitting.next()).map(|(name, key)| (name, key)).ok_or(KeyError::NoKey)
    }

    /// Adds the signatures of those at hand who are in the quorum, as far as they are needed. Says who signed.
    pub fn add(&self, envelope: &mut Envelope, quorum: &Quorum) -> Result<Vec<SignerName>, KeyError> {
        let mut signed = Vec::new();
        for (name, key) in self.keys.iter().filter(|(name, key)| quorum.key_of(name) == Some(key.public())) {
            let there = envelope.signers_among(&quorum.keys());
            if there.len() >= quorum.threshold() {
                break;
            }
            if !there.contains(&key.public()) {
                envelope.sign(key.as_ref())?;
                signed.push(name.clone());
            }
        }
        Ok(signed)
    }

    /// The keys at hand, to be chosen from when it is known who is a signer now.
    pub fn at_hand(&self) -> Vec<(SignerName, Arc<dyn Sign>)> {
        self.keys.clone()
    }
}
