//! The recovery set (break-glass keys): three phrases of twelve words, two of which can replace a lost signer set.

use bip39::{Language, Mnemonic};
use ground::random::{self, NoRandomness};
use identity::key::{EdKey, Sign as _};
use identity::principal::{BadName, SignerName};
use identity::signers::{Quorum, Signer};
use org::founding::recovery_key;
use terminal::phrase::WordList;
use zeroize::Zeroizing;

/// Of a phrase.
pub const WORDS: usize = 12;

/// Words of which phrases are made.
pub fn word_list() -> WordList {
    Language::English.word_list()
}

/// Shown once, written down by people, kept nowhere.
#[derive(Clone)]
pub struct Phrase {
    words: Zeroizing<String>,
}

impl std::fmt::Debug for Phrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Phrase(hidden)")
    }
}

impl Phrase {
    pub fn words(&self) -> &str {
        &self.words
    }
}

/// Draws the phrases and the public keys for which they stand.
pub fn draw(count: usize) -> Result<(Vec<Phrase>, Vec<Signer>), RecoveryError> {
    let (mut phrases, mut signers) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let entropy = Zeroizing::new(random::bytes::<16>()?);
        let mnemonic = Mnemonic::from_entropy(&entropy[..]).map_err(|_| RecoveryError::NoWords)?;
        phrases.push(Phrase { words: Zeroizing::new(mnemonic.to_string()) });
        let key: EdKey = recovery_key(&entropy);
        let name: SignerName = format!("recovery-{number}").parse()?;
        signers.push(Signer { name, key: key.public() });
    }
    Ok((phrases, signers))
}

/// The recovery key that a person's words stand for, if it is one of the org's.
fn read(words: &str, quorum: &Quorum) -> Result<EdKey, BadPhrase> {
    let plain = Zeroizing::new(words.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
    let mnemonic: Mnemonic = plain.parse().map_err(|_| BadPhrase::NotAPhrase)?;
    let entropy = Zeroizing::new(mnemonic.to_entropy());
    let entropy: Zeroizing<[u8; 16]> =
        Zeroizing::new(entropy.as_slice().try_into().map_err(|_| BadPhrase::NotAPhrase)?);
    let key = recovery_key(&entropy);
    if quorum.keys().contains(&key.public()) { Ok(key) } else { Err(BadPhrase::OtherOrg) }
}

/// Recovery keys, as they are typed one after the other.
pub struct Typed<'a> {
    quorum: &'a Quorum,
    keys: Vec<EdKey>,
}

impl<'a> Typed<'a> {
    pub const fn new(quorum: &'a Quorum) -> Self {
        Self { quorum, keys: Vec::new() }
    }

    pub const fn count(&self) -> usize {
        self.keys.len()
    }

    pub fn take(&mut self, words: &str) -> Result<(), BadPhrase> {
        let key = read(words, self.quorum)?;
        if self.keys.iter().any(|known| known.public() == key.public()) {
            return Err(BadPhrase::Twice);
        }
        self.keys.push(key);
        Ok(())
    }

    /// As many as it takes.
    pub fn enough(self) -> Result<Vec<EdKey>, BadPhrase> {
        let (needed, given) = (self.quorum.threshold(), self.count());
        if given < needed { Err(BadPhrase::TooFew { needed, given }) } else { Ok(self.keys) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPhrase {
    #[error("these are not the twelve words of a recovery phrase: a word is wrong, or missing")]
    NotAPhrase,
    #[error("this is a recovery phrase, but not one of this org")]
    OtherOrg,
    #[error("the same phrase was given twice")]
    Twice,
    #[error("{needed} phrases are needed, {given} were given")]
    TooFew { needed: usize, given: usize },
}

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("the recovery phrases could not be made")]
    NoWords,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_counts_once_and_too_few_are_none() {
        let (phrases, signers) = draw(3).unwrap();
        let quorum = Quorum::new(2, signers).unwrap();
        let mut typed = Typed::new(&quorum);
        typed.take(phrases[0].words()).unwrap();
        assert_eq!(typed.take(phrases[0].words()).unwrap_err(), BadPhrase::Twice);
        assert_eq!(typed.enough().unwrap_err(), BadPhrase::TooFew { needed: 2, given: 1 });
    }

    #[test]
    fn a_phrase_read_back_is_the_same_key() {
        let (phrases, signers) = draw(3).unwrap();
        for (phrase, signer) in phrases.iter().zip(&signers) {
            assert_eq!(phrase.words().split(' ').count(), 12);
            let entropy: [u8; 16] =
                phrase.words().parse::<Mnemonic>().unwrap().to_entropy().as_slice().try_into().unwrap();
            assert_eq!(recovery_key(&entropy).public(), signer.key);
            let quorum = Quorum::new(2, signers.clone()).unwrap();
            let shouted = format!("  {}\n", phrase.words().to_uppercase().replace(' ', "   "));
            assert_eq!(read(&shouted, &quorum).unwrap().public(), signer.key);
        }
        let others = Quorum::new(2, draw(3).unwrap().1).unwrap();
        assert_eq!(read(phrases[0].words(), &others).unwrap_err(), BadPhrase::OtherOrg);
        assert_eq!(read("abandon ability", &others).unwrap_err(), BadPhrase::NotAPhrase);
    }
}
