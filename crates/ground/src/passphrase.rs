//! Where a passphrase comes from: a file, or a person at a terminal.

use std::io::IsTerminal as _;
use std::path::Path;

use zeroize::Zeroizing;

use crate::file::{self, FileError};

/// In bits: each guess takes a tenth of a second, and there are many machines.
const STRONG: u32 = 40;
/// A word of the 10,000 that people know, a letter, and a digit or sign: tenths of a bit.
const TENTHS_OF_WORD: u32 = 133;
const TENTHS_OF_LETTER: u32 = 47;
const TENTHS_OF_OTHER: u32 = 40;

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

    /// It falls to at most two to the power of so many guesses: by words that everybody knows, letters in a row, and what is
    /// left letter by letter. Whoever drew it otherwise knows better; it is a bound and no praise.
    pub fn guessed_within(&self) -> u32 {
        let text = self.0.to_lowercase();
        let mut tenths = 0;
        for part in parts(&text) {
            let letters = part.chars().zip(part.chars().skip(1)).filter(|(one, next)| !is_run(*one, *next)).count() + 1;
            let letters = u32::try_from(letters).unwrap_or(u32::MAX);
            let is_word = part.chars().all(char::is_alphabetic);
            let each = if is_word { TENTHS_OF_LETTER } else { TENTHS_OF_OTHER };
            let most = if is_word { TENTHS_OF_WORD } else { u32::MAX };
            tenths += letters.saturating_mul(each).min(most);
        }
        // Capitals in odd places.
        let capitals = self.0.chars().filter(|c| c.is_uppercase()).count();
        tenths / 10 + u32::try_from(capitals).unwrap_or(0)
    }

    /// Whoever has the files tries as many on a few machines.
    pub fn is_weak(&self) -> bool {
        self.guessed_within() < STRONG
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

/// Letters that stand together, and what stands between them; blanks tell nothing.
fn parts(text: &str) -> Vec<&str> {
    let is_letter = |c: char| c.is_alphabetic();
    let words = text.split(|c: char| !is_letter(c)).filter(|part| !part.is_empty());
    words.chain(text.split(|c: char| is_letter(c) || c.is_whitespace()).filter(|part| !part.is_empty())).collect()
}

/// `aa`, `ab`, `21`: the next one is no choice.
const fn is_run(one: char, next: char) -> bool {
    (one as u32).abs_diff(next as u32) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_people_would_choose_is_weak_and_several_words_are_not() {
        let bits = |text: &str| Passphrase::new(text.to_owned()).guessed_within();
        for weak in ["sea", "password1", "Summer2026!", "aaaaaaaaaaaaaaaaaaaa", "abcdefghijklmnop", "correct horse"] {
            assert!(Passphrase::new(weak.to_owned()).is_weak(), "{weak}: {}", bits(weak));
        }
        for strong in ["correct horse battery staple", "kelp-otter-anvil-plume", "x7Kq#v2Pz!9mR4wT"] {
            assert!(!Passphrase::new(strong.to_owned()).is_weak(), "{strong}: {}", bits(strong));
        }
        assert!(bits("sea salt") > bits("sea"), "more is never less");
    }
}
