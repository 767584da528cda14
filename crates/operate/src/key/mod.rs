//! The signer keys at hand: opened when something must be signed, gone when the command ends.

pub mod token;
pub mod agent;

use std::path::PathBuf;
use std::sync::Arc;

use ground::file::{self, FileAccess, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use ground::secret::Secret;
use identity::envelope::Envelope;
use identity::key::{EdKey, PublicKey, Sign};
use identity::principal::SignerName;
use identity::signers::{Quorum, SignerSet};

use crate::folder::OperatorFolder;
use crate::key::agent::client;
use crate::key::agent::words::Material;
use crate::key::token::uri::TokenUri;
use crate::key::token::{TokenError, TokenFile, TokenKey};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the private keys stay closed")]
    Passphrase(#[from] NoPassphrase),
    #[error("the key file of `{0}` does not hold a signing key")]
    NotAKey(SignerName),
    #[error("no key of a current signer is here")]
    NoKey,
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

/// Signer keys at hand: opened files, or keys that others hold for us. None for who only brings what others signed.
#[derive(Debug, Clone, Default)]
pub struct SignerKeys {
    keys: Vec<(SignerName, Arc<dyn Sign>)>,
}

/// How a passphrase is come by.
pub trait AskPassphrase: Fn() -> Result<Passphrase, NoPassphrase> {}

impl<F: Fn() -> Result<Passphrase, NoPassphrase>> AskPassphrase for F {}

/// Which keys are looked for.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    quorums: &'a [Quorum],
    /// Keys of nobody in the quorums, too.
    others: bool,
    enough: usize,
}

/// The purpose that is sealed into a signer's key file.
pub(crate) fn purpose(name: &SignerName) -> String {
    format!("freehold signer {name}")
}

pub fn save(
    folder: &OperatorFolder,
    name: &SignerName,
    key: &EdKey,
    passphrase: Option<&Passphrase>,
) -> Result<(), KeyError> {
    let file = sealed::seal(&key.seed()[..], &purpose(name), passphrase)?;
    Ok(file::write(&folder.signer_file(name), &file, FileAccess::Private)?)
}

/// Notes on which token a signer's key is. Its PIN is written nowhere.
pub(crate) fn save_token(
    folder: &OperatorFolder,
    name: &SignerName,
    uri: &TokenUri,
    key: PublicKey,
) -> Result<(), KeyError> {
    let path = folder.token_file(name);
    let note = TokenFile { schema: 1, uri: uri.clone(), key };
    let json = serde_json::to_vec_pretty(&note).map_err(|_| KeyError::BadTokenFile { path: path.clone() })?;
    Ok(file::write(&path, &json, FileAccess::Private)?)
}

pub type Named = (SignerName, Arc<dyn Sign>);

impl SignerKeys {
    /// The keys of current signers, as many as the threshold needs. Where none here is known to be current, all: this
    /// home may not have heard yet that its signer is.
    pub fn open(folder: &OperatorFolder, set: &SignerSet, ask: impl AskPassphrase) -> Result<Self, KeyError> {
        let quorums = std::slice::from_ref(&set.quorum);
        match Self::gather(folder, Wanted { quorums, others: false, enough: set.quorum.threshold() }, &ask) {
            Err(KeyError::NoKey) => Self::gather(folder, Wanted { quorums, others: true, enough: usize::MAX }, &ask),
            opened => opened,
        }
    }

    /// Every key that is here: someone who comes or goes signs in two roles.
    pub fn open_all(folder: &OperatorFolder, set: &SignerSet, ask: impl AskPassphrase) -> Result<Self, KeyError> {
        let quorums = std::slice::from_ref(&set.quorum);
        Self::gather(folder, Wanted { quorums, others: true, enough: usize::MAX }, &ask)
    }

    /// The keys here of anybody in these quorums.
    pub fn open_for(folder: &OperatorFolder, quorums: &[Quorum], ask: impl AskPassphrase) -> Result<Self, KeyError> {
        Self::gather(folder, Wanted { quorums, others: false, enough: usize::MAX }, &ask)
    }

    /// The public half of one key file that is here.
    pub fn public_key(
        folder: &OperatorFolder,
        name: &SignerName,
        ask: impl AskPassphrase,
    ) -> Result<PublicKey, KeyError> {
        Ok(KeyFiles { folder, ask, remembered: None }.open(name)?.public())
    }

    /// First those that the user's agent holds, then files, for which the passphrase is asked for once, then tokens,
    /// each of which may want its PIN.
    fn gather(
        folder: &OperatorFolder,
        Wanted { quorums, others, enough }: Wanted<'_>,
        ask: &impl AskPassphrase,
    ) -> Result<Self, KeyError> {
        let known = |name: &SignerName| quorums.iter().find_map(|quorum| quorum.key_of(name));
        let mut keys = held_by_the_agent(quorums);
        keys.truncate(enough);
        let mut files = KeyFiles { folder, ask, remembered: None };
        let on_disk = folder.signers_here().into_iter().map(|name| (name, false));
        let here = on_disk.chain(folder.tokens_here().into_iter().map(|name| (name, true)));
        for (name, on_token) in here.filter(|(name, _)| others || known(name).is_some()) {
            if keys.len() >= enough || is_among(&keys, &name) {
                continue;
            }
            let is_wanted = |key: PublicKey| others || known(&name) == Some(key);
            let key: Arc<dyn Sign> = if on_token {
                let note = read_token(folder, &name)?;
                // Nobody is asked for a PIN in vain.
                if !is_wanted(note.key) {
                    continue;
                }
                let key = TokenKey::open(&note.uri, note.key, Passphrase::ask);
                Arc::new(key.map_err(|source| KeyError::Token { signer: name.clone(), source })?)
            } else {
                Arc::new(files.open(&name)?)
            };
            if is_wanted(key.public()) {
                keys.push((name, key));
            }
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(Self { keys }) }
    }

    /// The signer under whose name this operator's chain is written: one of `quorum`.
    pub fn author(
        &self,
        preferred: Option<&SignerName>,
        quorum: &Quorum,
    ) -> Result<(&SignerName, &Arc<dyn Sign>), KeyError> {
        let fits = |(name, key): &&Named| quorum.key_of(name) == Some(key.public());
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
    pub fn at_hand(&self) -> Vec<Named> {
        self.keys.clone()
    }
}

fn is_among(keys: &[Named], name: &SignerName) -> bool {
    keys.iter().any(|(here, _)| here == name)
}

/// On which token a signer's key is.
pub(crate) fn read_token(folder: &OperatorFolder, name: &SignerName) -> Result<TokenFile, KeyError> {
    let path = folder.token_file(name);
    let bytes = file::read_secret(&path)?;
    match serde_json::from_slice(&bytes) {
        Ok(note @ TokenFile { schema: 1, .. }) => Ok(note),
        _ => Err(KeyError::BadTokenFile { path }),
    }
}

/// Opens every key of a current signer that is here, for an agent to hold. The passphrase is asked for once, and each
/// token's PIN.
pub fn open_for_agent(
    folder: &OperatorFolder,
    set: &SignerSet,
    ask: impl AskPassphrase,
) -> Result<Vec<(SignerName, Material)>, KeyError> {
    let mut files = KeyFiles { folder, ask, remembered: None };
    let mut keys = Vec::new();
    for name in folder.signers_here().into_iter().filter(|name| set.quorum.key_of(name).is_some()) {
        let key = files.open(&name)?;
        if set.quorum.key_of(&name) == Some(key.public()) {
            keys.push((name, Material::Seed(Secret::of(&key.seed()[..]))));
        }
    }
    for name in folder.tokens_here().into_iter().filter(|name| set.quorum.key_of(name).is_some()) {
        let TokenFile { uri, key, .. } = read_token(folder, &name)?;
        if set.quorum.key_of(&name) != Some(key) {
            continue;
        }
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

fn held_by_the_agent(quorums: &[Quorum]) -> Vec<Named> {
    let signers = || quorums.iter().flat_map(Quorum::signers);
    let mut keys: Vec<Named> = Vec::new();
    for key in client::keys_held() {
        let signer = signers().find(|signer| signer.key == key.public());
        if let Some(signer) = signer.filter(|signer| !is_among(&keys, &signer.name)) {
            keys.push((signer.name.clone(), Arc::new(key)));
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

impl<A: AskPassphrase> KeyFiles<'_, A> {
    fn open(&mut self, name: &SignerName) -> Result<EdKey, KeyError> {
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
        Ok(EdKey::from_seed(seed))
    }
}
