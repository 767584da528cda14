//! The recovery set: three phrases of twelve words, two of which can replace a lost signer set.

use bip39::Mnemonic;
use ground::random::{self, NoRandomness};
use identity::key::{EdKey, Sign as _};
use identity::principal::{BadName, SignerName};
use identity::signers::Signer;
use org::founding::recovery_key;
use zeroize::Zeroizing;

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
    fn a_phrase_read_back_is_the_same_key() {
        let (phrases, signers) = draw(3).unwrap();
        for (phrase, signer) in phrases.iter().zip(&signers) {
            assert_eq!(phrase.words().split(' ').count(), 12);
            let entropy: [u8; 16] =
                phrase.words().parse::<Mnemonic>().unwrap().to_entropy().as_slice().try_into().unwrap();
            assert_eq!(recovery_key(&entropy).public(), signer.key);
        }
    }
}
