//! Where a passphrase comes from: a file, or a person at a terminal.

use std::io::IsTerminal as _;
use std::path::Path;

use zeroize::Zeroizing;

use crate::file::{self, FileError};

#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(hidden)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoPassphrase {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the passphrase file is empty or not text")]
    BadFile,
    #[error("a passphrase is needed, and there is no terminal to ask at")]
    NoTerminal,
    #[error("the two passphrases differ")]
    Differ,
    #[error("an empty passphrase protects nothing")]
    Empty,
    #[error("the terminal could not be read")]
    Terminal(#[source] std::io::Error),
}

impl Passphrase {
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The first line of a private file.
    pub fn from_file(path: &Path) -> Result<Self, NoPassphrase> {
        let bytes = file::read_secret(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| NoPassphrase::BadFile)?;
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(Self::new(line.to_owned())),
            _ => Err(NoPassphrase::BadFile),
        }
    }

    pub fn ask(prompt: &str) -> Result<Self, NoPassphrase> {
        if !std::io::stderr().is_terminal() && !std::io::stdin().is_terminal() {
            return Err(NoPassphrase::NoTerminal);
        }
        let text = rpassword::prompt_password(format!("{prompt}: ")).map_err(NoPassphrase::Terminal)?;
        if text.is_empty() { Err(NoPassphrase::Empty) } else { Ok(Self::new(text)) }
    }

    /// Twice, because a typing error would lock its owner out.
    pub fn ask_new(prompt: &str) -> Result<Self, NoPassphrase> {
        let first = Self::ask(prompt)?;
        let second = Self::ask("again")?;
        if first.bytes() == second.bytes() { Ok(first) } else { Err(NoPassphrase::Differ) }
    }
}
