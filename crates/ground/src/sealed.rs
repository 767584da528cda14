//! A secret at rest: encrypted under a passphrase, or, if someone typed so, not at all.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use identity::text::Bytes;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::passphrase::Passphrase;
use crate::random::{self, NoRandomness};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    schema: u32,
    /// What the secret is for; sealed in, so that files cannot be swapped.
    purpose: String,
    how: How,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum How {
    Passphrase { memory_kib: u32, passes: u32, lanes: u32, salt: Bytes, nonce: Bytes, data: Bytes },
    Unprotected { data: Bytes },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the passphrase is wrong, or the file was changed")]
    WrongPassphrase,
    #[error("the key file cannot be read: it is damaged or of a newer version")]
    Unreadable,
    #[error("the key file holds `{found}`, not `{expected}`")]
    OtherPurpose { expected: String, found: String },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("the passphrase could not be turned into a key")]
    Kdf,
}

/// Argon2id as RFC 9106 recommends where memory is not plentiful.
pub(crate) const COST: Cost = Cost { memory_kib: 64 * 1024, passes: 3, lanes: 4 };

/// What turning a passphrase into a key costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    pub memory_kib: u32,
    pub passes: u32,
    pub lanes: u32,
}

impl Cost {
    /// A changed file must not make us allocate or wait without end.
    pub(crate) const fn is_bearable(self) -> bool {
        self.memory_kib <= 4 * COST.memory_kib && self.passes <= 16 && self.lanes <= 16
    }
}

/// `None` writes the secret in the clear: the caller has said so aloud.
pub fn seal(secret: &[u8], purpose: &str, passphrase: Option<&Passphrase>) -> Result<Vec<u8>, SealError> {
    let how = match passphrase {
        None => How::Unprotected { data: Bytes(secret.to_vec()) },
        Some(passphrase) => {
            let (salt, nonce) = (random::bytes::<16>()?, random::bytes::<12>()?);
            let key = derive(passphrase, &salt, COST)?;
            let mut data = secret.to_vec();
            let nonce_once = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce_once, Aad::from(purpose.as_bytes()), &mut data)
                .map_err(|_| SealError::Kdf)?;
            How::Passphrase {
                memory_kib: COST.memory_kib,
                passes: COST.passes,
                lanes: COST.lanes,
                salt: Bytes(salt.to_vec()),
                nonce: Bytes(nonce.to_vec()),
                data: Bytes(data),
            }
        }
    };
    let sealed = Sealed { schema: 1, purpose: purpose.to_owned(), how };
    serde_json::to_vec_pretty(&sealed).map_err(|_| SealError::Unreadable)
}

/// Opens a secret; asks for the passphrase only if there is one.
pub fn open<E: From<SealError>>(
    file: &[u8],
    purpose: &str,
    passphrase: impl FnOnce() -> Result<Passphrase, E>,
) -> Result<Zeroizing<Vec<u8>>, E> {
    let sealed: Sealed = serde_json::from_slice(file).map_err(|_| SealError::Unreadable)?;
    if sealed.schema != 1 {
        return Err(SealError::Unreadable.into());
    }
    if sealed.purpose != purpose {
        return Err(SealError::OtherPurpose { expected: purpose.to_owned(), found: sealed.purpose }.into());
    }
    match sealed.how {
        How::Unprotected { data } => Ok(Zeroizing::new(data.0)),
        How::Passphrase { memory_kib, passes, lanes, salt, nonce, data } => {
            let cost = Cost { memory_kib, passes, lanes };
            if !cost.is_bearable() {
                return Err(SealError::Unreadable.into());
            }
            let nonce: [u8; 12] = nonce.0.try_into().map_err(|_| SealError::Unreadable)?;
            let key = derive(&passphrase()?, &salt.0, cost)?;
            let mut data = Zeroizing::new(data.0);
            let aad = Aad::from(purpose.as_bytes());
            let length = key
                .open_in_place(Nonce::assume_unique_for_key(nonce), aad, &mut data[..])
                .map_err(|_| SealError::WrongPassphrase)?
                .len();
            data.truncate(length);
            Ok(data)
        }
    }
}

/// True if it is a key file of ours, protected or not.
pub fn is_sealed(file: &[u8]) -> bool {
    serde_json::from_slice::<Sealed>(file).is_ok_and(|sealed| sealed.schema == 1)
}

/// True if opening the file will need a passphrase.
pub fn is_protected(file: &[u8]) -> bool {
    serde_json::from_slice::<Sealed>(file).is_ok_and(|sealed| matches!(sealed.how, How::Passphrase { .. }))
}

fn derive(passphrase: &Passphrase, salt: &[u8], cost: Cost) -> Result<LessSafeKey, SealError> {
    let key = stretch(passphrase, salt, cost)?;
    UnboundKey::new(&AES_256_GCM, &key[..]).map(LessSafeKey::new).map_err(|_| SealError::Kdf)
}

/// Argon2id: a passphrase becomes 32 bytes, at a cost that whoever guesses pays each time.
pub(crate) fn stretch(passphrase: &Passphrase, salt: &[u8], cost: Cost) -> Result<Zeroizing<[u8; 32]>, SealError> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).map_err(|_| SealError::Kdf)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.bytes(), salt, &mut key[..])
        .map_err(|_| SealError::Kdf)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    #[test]
    fn only_the_right_passphrase_opens() {
        let file = seal(b"secret", "signer ann", Some(&phrase("correct horse"))).unwrap();
        assert!(is_protected(&file));
        assert!(!String::from_utf8_lossy(&file).contains("c2VjcmV0"), "the secret must not lie in the clear");
        let right: Result<_, SealError> = open(&file, "signer ann", || Ok(phrase("correct horse")));
        assert_eq!(&right.unwrap()[..], b"secret");
        let wrong: Result<_, SealError> = open(&file, "signer ann", || Ok(phrase("battery staple")));
        assert_eq!(wrong.unwrap_err(), SealError::WrongPassphrase);
        let swapped: Result<_, SealError> = open(&file, "identity root", || Ok(phrase("correct horse")));
        assert!(matches!(swapped.unwrap_err(), SealError::OtherPurpose { .. }));
    }

    #[test]
    fn a_relabelled_file_does_not_open() {
        let file = seal(b"secret", "signer ann", Some(&phrase("p"))).unwrap();
        let relabelled = String::from_utf8(file).unwrap().replace("signer ann", "signer ben");
        let opened: Result<_, SealError> = open(relabelled.as_bytes(), "signer ben", || Ok(phrase("p")));
        assert_eq!(opened.unwrap_err(), SealError::WrongPassphrase);
    }
}
