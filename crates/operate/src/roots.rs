//! The two roots: opened to certify issuing keys, gone when that is done.

use std::path::Path;

use ground::file::{self, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::certificate::{self, BadCertificate};
use identity::key::{BadKey, P256Key};

#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Passphrase(#[from] NoPassphrase),
    #[error("the {0} root's key is not in `{1}`")]
    NotHere(&'static str, String),
    #[error("the {0} root's key does not hold")]
    Key(&'static str, #[source] BadKey),
    #[error("the {0} root's certificate does not hold")]
    Certificate(&'static str, #[source] BadCertificate),
}

/// What is sealed into a root's key file.
pub fn purpose<D: InDomain>() -> String {
    format!("freehold {}-root", D::DOMAIN.word())
}

/// Opens a root that lies in a folder.
pub fn open<D: InDomain>(
    folder: &Path,
    ask: impl FnOnce() -> Result<Passphrase, NoPassphrase>,
) -> Result<Authority<D>, RootError> {
    let word = D::DOMAIN.word();
    let path = folder.join(format!("{word}-root.key"));
    if !path.exists() {
        return Err(RootError::NotHere(word, folder.display().to_string()));
    }
    let bytes = file::read_secret(&path)?;
    let opened = sealed::open(&bytes, &purpose::<D>(), || -> Result<Passphrase, RootError> { Ok(ask()?) })?;
    let key = P256Key::from_pkcs8(&opened).map_err(|why| RootError::Key(word, why))?;
    let pem = file::read(&folder.join(format!("{word}-root.pem")))?;
    let bad = |why| RootError::Certificate(word, why);
    let chain = certificate::from_pem(&String::from_utf8_lossy(&pem)).map_err(bad)?;
    let root = chain.into_iter().next().ok_or(BadCertificate::Unreadable("it is empty")).map_err(bad)?;
    Authority::load(root, &key).map_err(bad)
}
