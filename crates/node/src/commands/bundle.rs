//! Opens the bundle that `join --bundle` is given.

use std::io::IsTerminal as _;
use std::path::Path;

use ground::file;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::{self, SealError};
use ground::secret;
use org::invite::carried::{BUNDLE, JoinBundle};
use terminal::failure::{During, Exit, Failure};

#[derive(Debug, thiserror::Error)]
enum NotOpened {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Passphrase(#[from] NoPassphrase),
}

const LONGEST_PASSPHRASE: usize = 1 << 10;

pub(crate) fn open(path: &Path, passphrase: Option<&Path>, doing: &str) -> Result<JoinBundle, Failure> {
    let bytes = file::read(path).during(doing)?;
    let text = sealed::open(&bytes, BUNDLE, || ask(passphrase).map_err(NotOpened::from)).map_err(|why| {
        let failure = Failure::new(doing, &why);
        match why {
            NotOpened::Seal(SealError::WrongPassphrase) => failure
                .exit(Exit::Refused)
                .hint("type it as it was told to you; if it is right, ask an operator for a new bundle: freehold bundle issue"),
            NotOpened::Seal(_) => failure.exit(Exit::Refused).hint("ask an operator for a new bundle: freehold bundle issue"),
            NotOpened::Passphrase(_) => failure.exit(Exit::Usage).hint("give it with --passphrase-file FILE, or on stdin"),
        }
    })?;
    let damaged = || Failure::refused(doing, format!("`{}` is no bundle", path.display()));
    let text = std::str::from_utf8(&text).map_err(|_| damaged())?;
    text.parse().map_err(|why: org::invite::code::BadCode| Failure::new(doing, &why).exit(Exit::Refused))
}

fn ask(file: Option<&Path>) -> Result<Passphrase, NoPassphrase> {
    if let Some(path) = file {
        return Passphrase::from_file(path);
    }
    if std::io::stdin().is_terminal() {
        return Passphrase::ask("passphrase of the bundle");
    }
    let line = secret::read_line(&mut std::io::stdin().lock(), LONGEST_PASSPHRASE).map_err(NoPassphrase::Terminal)?;
    match std::str::from_utf8(&line).map(|text| text.lines().next().unwrap_or_default()) {
        Ok("") => Err(NoPassphrase::NoTerminal),
        Ok(line) => Ok(Passphrase::new(line.to_owned())),
        Err(_) => Err(NoPassphrase::BadFile),
    }
}
