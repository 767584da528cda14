//! Opens the bundle that `join --bundle` is given.

use std::io::IsTerminal as _;
use std::path::Path;

use ground::archive::text::NotOpened;
use ground::file;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use ground::secret;
use member::ask::enroll::bundle::{self, NoBundle, Opened};
use terminal::again::{patiently, wrong_passphrase};
use terminal::failure::{During, Exit, Failure};

const LONGEST_PASSPHRASE: usize = 1 << 10;

pub(crate) fn open(path: &Path, passphrase: Option<&Path>, doing: &str) -> Result<Opened, Failure> {
    let bytes = file::read(path).during(doing)?;
    let typed = passphrase.is_none() && std::io::stdin().is_terminal();
    let wrong = |why: &NoBundle| {
        let is_wrong =
            matches!(why, NoBundle::Age(NotOpened::WrongPassphrase) | NoBundle::Seal(SealError::WrongPassphrase));
        wrong_passphrase(is_wrong)
    };
    let opened = patiently(typed, wrong, || bundle::open(&bytes, || ask(passphrase)));
    opened.map_err(|why| {
        let failure = Failure::new(doing, &why);
        let again = "ask an operator for a new bundle: freehold bundle issue";
        match why {
            NoBundle::Age(NotOpened::WrongPassphrase) | NoBundle::Seal(SealError::WrongPassphrase) => {
                failure.exit(Exit::Refused).hint(format!("type it as it was told to you; if it is right, {again}"))
            }
            NoBundle::Passphrase(_) => {
                failure.exit(Exit::Usage).hint("give it with --passphrase-file FILE, or on stdin")
            }
            NoBundle::Age(_) | NoBundle::Seal(_) | NoBundle::NoText | NoBundle::Code(_) | NoBundle::Org(_) => {
                failure.exit(Exit::Refused).hint(again)
            }
        }
    })
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
