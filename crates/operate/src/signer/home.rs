//! Signer keys and the homes that they are in: made here, noted of a token, handed over to a home of their own.

use std::path::Path;

use ground::file::{self, FileAccess, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::random::{self, NoRandomness};
use identity::key::{PublicKey, Sign as _};
use identity::principal::SignerName;
use wire::known::Known;

use crate::folder::card::{self, Card};
use crate::folder::{FolderError, Memory, OperatorFolder};
use crate::key::token::uri::TokenUri;
use crate::key::token::{self, TokenError};
use crate::key::{self, KeyError};

/// Why a key did not come into a home, or a home into being.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("the key of `{0}` is here already")]
    KeyIsHere(SignerName),
    #[error("that home has a key of this name already")]
    KeyIsThere,
    #[error("another org of this name is in this home")]
    OtherOrgHere,
    #[error("another org of this name is in that home")]
    OtherOrgThere,
}

/// The folder of a card's org in this home, made if there is none.
pub fn from_card(home: &Path, path: &Path) -> Result<(OperatorFolder, Known), HomeError> {
    let (known, gateways) = Card::read(path)?;
    let folder = OperatorFolder::at(home, &known.founding.record.name);
    if !folder.path("known.json").exists() {
        card::settle(&folder, &known, gateways)?;
    } else if folder.known()?.org() != known.org() {
        return Err(HomeError::OtherOrgHere);
    }
    Ok((folder, known))
}

fn was_signer(known: &Known, name: &SignerName) -> bool {
    known.signer_sets().iter().any(|set| set.quorum.key_of(name).is_some())
}

/// No key is put in the place of another.
fn check_free(folder: &OperatorFolder, name: &SignerName) -> Result<(), HomeError> {
    if folder.signers_here().contains(name) || folder.tokens_here().contains(name) {
        return Err(HomeError::KeyIsHere(name.clone()));
    }
    Ok(())
}

/// A new key in this home; the first one signs from then on.
fn make_key(
    folder: &OperatorFolder,
    name: &SignerName,
    passphrase: Option<&Passphrase>,
) -> Result<PublicKey, HomeError> {
    check_free(folder, name)?;
    let key = random::ed25519()?;
    key::save(folder, name, &key, passphrase)?;
    let mut memory = folder.memory()?;
    if memory.signer.is_none() {
        memory.signer = Some(name.clone());
        folder.save_memory(&memory)?;
    }
    Ok(key.public())
}

/// Whoever is to sign, and may have to open a key that is here, or choose a passphrase for a new one.
pub trait KeyOwner {
    type Stop: From<HomeError>;

    /// The public half of a key that lies here.
    fn public_key(&self, folder: &OperatorFolder, name: &SignerName) -> Result<PublicKey, Self::Stop>;

    /// Nothing if the key is to lie there in the open.
    fn new_passphrase(&self) -> Result<Option<Passphrase>, Self::Stop>;
}

/// The key of somebody who is no signer yet: the one that an earlier run left here, or a new one.
pub fn find_or_make_key<O: KeyOwner>(
    folder: &OperatorFolder,
    known: &Known,
    name: &SignerName,
    owner: &O,
) -> Result<PublicKey, O::Stop> {
    if folder.signers_here().contains(name) && !was_signer(known, name) {
        return owner.public_key(folder, name);
    }
    check_free(folder, name)?;
    let passphrase = owner.new_passphrase()?;
    Ok(make_key(folder, name, passphrase.as_ref())?)
}

/// A key on a hardware token, which has it already or makes it.
#[derive(Debug, Clone, Copy)]
pub struct OnToken<'a> {
    pub uri: &'a TokenUri,
    pub generate: bool,
}

/// Notes where a token's key is.
pub fn use_token(
    folder: &OperatorFolder,
    known: &Known,
    name: &SignerName,
    on: OnToken<'_>,
    ask: impl Fn(&str) -> Result<Passphrase, NoPassphrase>,
) -> Result<PublicKey, HomeError> {
    if folder.tokens_here().contains(name) && !was_signer(known, name) {
        let noted = key::read_token(folder, name)?;
        if noted.uri.to_string() == on.uri.to_string() {
            // An earlier run was cut off, or somebody said no.
            return Ok(noted.key);
        }
    }
    check_free(folder, name)?;
    let key = if on.generate { token::generate(on.uri, ask) } else { token::describe(on.uri, ask) }?;
    key::save_token(folder, name, on.uri, key)?;
    Ok(key)
}

/// Moves a signer's key to another home, which is made if it is not there.
pub fn hand_over(folder: &OperatorFolder, known: &Known, name: &SignerName, to: &Path) -> Result<(), HomeError> {
    let key = folder.signer_file(name);
    let sealed = file::read_secret(&key)?;
    let there = OperatorFolder::at(to, &known.founding.record.name);
    if let Some(other) = file::read_if_there(&there.signer_file(name))? {
        // An earlier run may have been cut off after it had copied the key, and before it wiped this one.
        let one_file = std::fs::canonicalize(&key).ok() == std::fs::canonicalize(there.signer_file(name)).ok();
        if one_file || other != *sealed {
            return Err(HomeError::KeyIsThere);
        }
    }
    let memory = folder.memory()?;
    if !there.path("known.json").exists() {
        card::settle(&there, known, memory.gateways.clone())?;
        there.save_memory(&Memory { signer: Some(name.clone()), ..memory })?;
    } else if there.known()?.org() != known.org() {
        return Err(HomeError::OtherOrgThere);
    }
    // There first, then gone here: whatever happens in between, the key is not lost.
    file::write(&there.signer_file(name), &sealed, FileAccess::Private)?;
    Ok(file::wipe(&key)?)
}
