//! The bundle that somebody carried here: an age file, a text that holds no secret, or the sealed JSON of before.

use ground::archive::text;
use ground::clock;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use org::invite::carried::{BUNDLE, JoinBundle};
use org::invite::code::BadCode;
use wire::known::carried::{BadCarried, CarriedOrg, KnownOrg};
use zeroize::Zeroizing;

#[derive(Debug, thiserror::Error)]
pub enum NoBundle {
    #[error(transparent)]
    Age(#[from] text::NotOpened),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Passphrase(#[from] NoPassphrase),
    #[error("it is no bundle")]
    NoText,
    #[error(transparent)]
    Code(#[from] BadCode),
    #[error(transparent)]
    Org(#[from] BadCarried),
}

/// What somebody carried here, checked as if a gateway had sent it.
#[derive(Debug)]
pub struct Opened {
    pub bundle: JoinBundle,
    pub org: Option<KnownOrg>,
}

/// Asks for a passphrase if it needs one.
pub fn open(file: &[u8], ask: impl FnOnce() -> Result<Passphrase, NoPassphrase>) -> Result<Opened, NoBundle> {
    let text = unsealed(file, ask)?;
    let bundle: JoinBundle = std::str::from_utf8(&text).map_err(|_| NoBundle::NoText)?.parse()?;
    let code = &bundle.code;
    let check = |org: &String| CarriedOrg::read(org)?.check(code.org, code.signers_floor, clock::now());
    let org = bundle.org.as_ref().map(check).transpose()?;
    Ok(Opened { bundle, org })
}

fn unsealed(
    file: &[u8],
    ask: impl FnOnce() -> Result<Passphrase, NoPassphrase>,
) -> Result<Zeroizing<Vec<u8>>, NoBundle> {
    if text::is_sealed(file) {
        return text::open(file, || Ok(ask()?));
    }
    if file.starts_with(BUNDLE.as_bytes()) {
        return Ok(Zeroizing::new(file.to_vec()));
    }
    sealed::open(file, BUNDLE, || Ok(ask()?))
}
