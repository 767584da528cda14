//! The home that a signer's key is made in, and the person who opens or protects it.

use ground::passphrase::Passphrase;
use identity::key::PublicKey;
use identity::principal::SignerName;
use operate::folder::OperatorFolder;
use operate::signer::home::{self, HomeError, KeyOwner};
use operate::signer::recover::NotBegun;
use terminal::failure::{Exit, Failure};
use wire::known::Known;

use crate::home::{Common, During, Explain};

pub fn known_here(common: &Common, doing: &str) -> Result<(OperatorFolder, Known), Failure> {
    let org = common.org(doing).map_err(|why| why.hint("or start from the org's card: --card FILE"))?;
    let folder = OperatorFolder::at(&common.home(), &org);
    let known = folder.known().during(doing)?;
    Ok((folder, known))
}

/// Somebody at this machine.
pub struct Owner<'a> {
    pub common: &'a Common,
    /// Keep the key unencrypted.
    pub unprotected: bool,
    pub doing: &'a str,
}

/// Why no key came of it.
pub enum NoSignerKey {
    Home(HomeError),
    NotBegun(NotBegun),
    Told(Failure),
}

impl NoSignerKey {
    pub fn failure(self, doing: &str) -> Failure {
        match self {
            Self::Home(why) => why.explain(doing.to_owned()),
            Self::NotBegun(why) => why.explain(doing.to_owned()),
            Self::Told(failure) => failure,
        }
    }
}

impl From<HomeError> for NoSignerKey {
    fn from(why: HomeError) -> Self {
        Self::Home(why)
    }
}

impl From<NotBegun> for NoSignerKey {
    fn from(why: NotBegun) -> Self {
        Self::NotBegun(why)
    }
}

impl From<Failure> for NoSignerKey {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl Explain for NotBegun {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Another(_) => {
                Failure::new(doing, self).exit(Exit::Refused).hint("go on with that one: freehold recover")
            }
            Self::NoName => Failure::new(doing, self).exit(Exit::Usage).hint("freehold recover --signer NAME"),
            Self::NameTaken(name) => {
                Failure::new(doing, self).exit(Exit::Refused).hint(format!("choose another: --signer {name}-2"))
            }
            Self::Quorum(why) => why.explain(doing),
            Self::Operate(why) => why.explain(doing),
        }
    }
}

impl Owner<'_> {
    /// The key of somebody who is no signer yet: the one that an earlier run left here, or a new one.
    pub fn find_or_make_key(
        &self,
        folder: &OperatorFolder,
        known: &Known,
        name: &SignerName,
    ) -> Result<PublicKey, Failure> {
        home::find_or_make_key(folder, known, name, self).map_err(|why| why.failure(self.doing))
    }
}

impl KeyOwner for Owner<'_> {
    type Stop = NoSignerKey;

    fn public_key(&self, folder: &OperatorFolder, name: &SignerName) -> Result<PublicKey, NoSignerKey> {
        Ok(self.common.public_key_here(folder, name, self.doing)?)
    }

    fn new_passphrase(&self) -> Result<Option<Passphrase>, NoSignerKey> {
        Ok(self.common.new_passphrase(self.unprotected, self.doing)?)
    }
}
