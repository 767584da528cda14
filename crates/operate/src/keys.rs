//! The signer keys at hand: opened when something must be signed, gone when the command ends.

use std::path::PathBuf;
use std::sync::Arc;

use ground::file::{self, Access, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use ground::secret::Secret;
use identity::envelope::Envelope;
use identity::key::{EdKey, PublicKey, Sign};
use identity::principal::SignerName;
use identity::signers::SignerSet;

use crate::agent::client;
use crate::agent::words::Material;
use crate::folder::OperatorFolder;
use crate::token::uri::TokenUri;
use crate::token::{TokenError, TokenFile, TokenKey};

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
    #[error("the token of `{signer}` cannot be used")]
    Token {
        signer: SignerName,
        #[source]
        source: TokenError,
    },
    #[error("`{}` is damaged, or of a newer version", path.display())]
    BadTokenFile { path: PathBuf },
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

/// Notes on which token a signer's key is. Its PIN is written nowhere.
pub fn save_token(folder: &OperatorFolder, name: &SignerName, uri: &TokenUri, key: PublicKey) -> Result<(), KeyError> {
    let path = folder.token_file(name);
    let note = TokenFile { schema: 1, uri: uri.clone(), key };
    let json = serde_json::to_vec_pretty(&note).map_err(|_| KeyError::BadTokenFile { path: path.clone() })?;
    Ok(file::write(&path, &json, Access::Private)?)
}

impl SignerKeys {
    /// The keys of current signers: first those that the user's agent holds, then files, for which the passphrase is
    /// asked for once, then tokens, each of which may want its PIN.
    pub fn open(
        folder: &OperatorFolder,
        set: &SignerSet,
        ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Self, KeyError> {
        let threshold = set.quorum.threshold();
        let mut keys = held_by_the_agent(set);
        keys.truncate(threshold);
        let mut files = KeyFiles { folder, ask, remembered: None };
        for name in folder.signers_here() {
            if keys.len() == threshold {
                break;
            }
            if keys.iter().any(|(here, _)| *here == name) {
                continue;
            }
            if let Some(key) = files.open_current(&name, set)? {
                keys.push((name, Arc::new(key)));
            }
        }
        for name in folder.tokens_here() {
            if keys.len() == threshold {
                break;
            }
            if keys.iter().any(|(here, _)| *here == name) {
                continue;
            }
            if let Some(note) = read_token(folder, &name, set)? {
                let key = TokenKey::open(&note.uri, note.key, Passphrase::ask);
                let key = key.map_err(|source| KeyError::Token { signer: name.clone(), source })?;
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

/// Where a current signer's key is; nothing if the note is of a key that is not in the set.
pub fn read_token(folder: &OperatorFolder, name: &SignerName, set: &SignerSet) -> Result<Option<TokenFile>, KeyError> {
    let path = folder.token_file(name);
    let bytes = file::read_secret(&path)?;
    let note: TokenFile = match serde_json::from_slice(&bytes) {
        Ok(note @ TokenFile { schema: 1, .. }) => note,
        _ => return Err(KeyError::BadTokenFile { path }),
    };
    Ok((set.quorum.key_of(name) == Some(note.key)).then_some(note))
}

/// Opens every key of a current signer that is here, for an agent to hold. The passphrase is asked for once, and each
/// token's PIN.
pub fn open_for_agent(
    folder: &OperatorFolder,
    set: &SignerSet,
    ask: impl Fn() -> Result<Passphrase, NoPassphrase>,
) -> Result<Vec<(SignerName, Material)>, KeyError> {
    let mut files = KeyFiles { folder, ask, remembered: None };
    let mut keys = Vec::new();
    for name in folder.signers_here() {
        if let Some(key) = files.open_current(&name, set)? {
            keys.push((name, Material::Seed(Secret::of(&key.seed()[..]))));
        }
    }
    for name in folder.tokens_here() {
        let Some(TokenFile { uri, key, .. }) = read_token(folder, &name, set)? else {
            continue;
        };
        let mut pin = None;
        let asked = |prompt: &str| {
            let typed = Passphrase::ask(prompt)?;
            pin = Some(Secret::of(typed.bytes()));
            Ok(typed)
        };
        // Tried here, where a person sees what is wrong with it.
        TokenKey::open(&uri, key, asked).map_err(|source| KeyError::Token { signer: name.clone(), source })?;
        keys.push((name, Material::Token { uri: Box::new(uri), key, pin }));
    }
    if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
}

fn held_by_the_agent(set: &SignerSet) -> Vec<(SignerName, Arc<dyn Sign>)> {
    let held = client::keys_held();
    let signer_of = |key: PublicKey| set.quorum.signers().iter().find(|signer| signer.key == key);
    let current = held.into_iter().filter_map(|key| Some((signer_of(key.public())?.name.clone(), key)));
    let mut keys: Vec<(SignerName, Arc<dyn Sign>)> = Vec::new();
    for (name, key) in current {
        if !keys.iter().any(|(here, _)| *here == name) {
            keys.push((name, Arc::new(key)));
        }
    }
    keys
}

/// Key files under one passphrase.
struct KeyFiles<'a, A> {
    folder: &'a OperatorFolder,
    ask: A,
    remembered: Option<Passphrase>,
}

impl<A: Fn() -> Result<Passphrase, NoPassphrase>> KeyFiles<'_, A> {
    /// Nothing if the file holds no key of the current set.
    fn open_current(&mut self, name: &SignerName, set: &SignerSet) -> Result<Option<EdKey>, KeyError> {
        let Some(public) = set.quorum.key_of(name) else {
            return Ok(None);
        };
        let bytes = file::read_secret(&self.folder.signer_file(name))?;
        let seed = sealed::open(&bytes, &purpose(name), || -> Result<Passphrase, KeyError> {
            let passphrase = match self.remembered.take() {
                Some(passphrase) => passphrase,
                None => (self.ask)()?,
            };
            self.remembered = Some(passphrase.clone());
            Ok(passphrase)
        })?;
        let seed = seed.as_slice().try_into().map_err(|_| KeyError::NotAKey(name.clone()))?;
        let key = EdKey::from_seed(seed);
        Ok((key.public() == public).then_some(key))
    }
}
