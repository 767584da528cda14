//! Keys that sign: Ed25519 for operators, invites and gateways' voices, P-256 for nodes and TLS.

pub(crate) mod remembered;

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use ed25519_dalek::Signer as _;
use zeroize::Zeroizing;

use crate::id::{Digest, sha256};
use crate::key::remembered::Claim;
use crate::text::{BadText, base64url, base64url_onto, from_base64url};
use crate::text_form;

/// A public key with its algorithm; written `ed25519:…` or `p256:…`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublicKey {
    Ed25519([u8; 32]),
    /// An uncompressed point.
    P256([u8; 65]),
}

/// That of a P-256 key.
const LONGEST_TEXT: usize = 92;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not fit the key and the message")]
pub struct BadSignature;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("the private key cannot be used: it is damaged or of another kind")]
    Damaged,
    /// Whoever holds the key, an agent or a token, did not sign.
    #[error("{0}")]
    NotSigned(String),
}

impl PublicKey {
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        let (algorithm, key) = self.parts();
        remembered::check(Claim { algorithm, key, message, signature }, || self.verify_anew(message, signature))
    }

    /// Remembers nothing: for words that nobody brings twice, which would crowd out those that many bring.
    pub fn verify_anew(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        match self {
            Self::Ed25519(bytes) => {
                let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| BadSignature)?;
                let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                key.verify_strict(message, &signature).map_err(|_| BadSignature)
            }
            Self::P256(point) => aws_lc_rs::signature::UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
                .verify(message, signature)
                .map_err(|_| BadSignature),
        }
    }

    /// A short, fixed-size name for the key: what revocations list.
    pub fn digest(&self) -> Digest {
        let (algorithm, key) = self.parts();
        let mut text = String::with_capacity(LONGEST_TEXT);
        text.push_str(algorithm);
        text.push(':');
        base64url_onto(key, &mut text);
        Digest(sha256(text.as_bytes()))
    }

    const fn parts(&self) -> (&'static str, &[u8]) {
        match self {
            Self::Ed25519(key) => ("ed25519", key),
            Self::P256(key) => ("p256", key),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (algorithm, key) = self.parts();
        write!(f, "{algorithm}:{}", base64url(key))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "public key (ed25519:… or p256:…)" };
        let (algorithm, encoded) = text.split_once(':').ok_or(bad)?;
        let bytes = from_base64url(encoded).map_err(|_| bad)?;
        match algorithm {
            "ed25519" => bytes.try_into().map(Self::Ed25519).map_err(|_| bad),
            "p256" => match <[u8; 65]>::try_from(bytes) {
                Ok(point) if point.first() == Some(&4) => Ok(Self::P256(point)),
                _ => Err(bad),
            },
            _ => Err(bad),
        }
    }
}

text_form!(PublicKey);

/// Something that can sign with one key: the key itself, or who holds it.
pub trait Sign: fmt::Debug + Send + Sync {
    fn public(&self) -> PublicKey;
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey>;
}

/// An Ed25519 private key; wiped when dropped.
pub struct EdKey(ed25519_dalek::SigningKey);

impl EdKey {
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

impl Sign for EdKey {
    fn public(&self) -> PublicKey {
        PublicKey::Ed25519(self.0.verifying_key().to_bytes())
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey> {
        Ok(self.0.sign(message).to_bytes().to_vec())
    }
}

impl fmt::Debug for EdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EdKey({})", self.public())
    }
}

/// A P-256 private key in PKCS#8; wiped when dropped.
pub struct P256Key {
    pair: EcdsaKeyPair,
    pkcs8: Zeroizing<Vec<u8>>,
    point: [u8; 65],
}

impl P256Key {
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, BadKey> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der).map_err(|_| BadKey::Damaged)?;
        let point = pair.public_key().as_ref().try_into().map_err(|_| BadKey::Damaged)?;
        Ok(Self { pair, pkcs8: Zeroizing::new(der.to_vec()), point })
    }

    pub fn from_pem(text: &str) -> Result<Self, BadKey> {
        use pki_types::pem::PemObject as _;
        let der = pki_types::PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| BadKey::Damaged)?;
        let key = Self::from_pkcs8(der.secret_pkcs8_der());
        drop(der);
        key
    }

    pub fn to_pem(&self) -> Zeroizing<String> {
        let body = Zeroizing::new(crate::text::base64(&self.pkcs8));
        let mut out = Zeroizing::new(String::from("-----BEGIN PRIVATE KEY-----\n"));
        for line in body.as_bytes().chunks(64) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
        out.push_str("-----END PRIVATE KEY-----\n");
        out
    }

    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

impl Sign for P256Key {
    fn public(&self) -> PublicKey {
        PublicKey::P256(self.point)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| BadKey::Damaged)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for P256Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P256Key({})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_one_key_and_one_message() {
        let (ann, ben) = (EdKey::from_seed(&[1; 32]), EdKey::from_seed(&[2; 32]));
        let signature = ann.sign(b"hello").unwrap();
        assert_eq!(ann.public().verify(b"hello", &signature), Ok(()));
        assert_eq!(ann.public().verify(b"hullo", &signature), Err(BadSignature));
        assert_eq!(ben.public().verify(b"hello", &signature), Err(BadSignature));
        assert_eq!(ann.public().verify(b"hello", &signature[..63]), Err(BadSignature));
    }

    #[test]
    fn a_weak_ed25519_key_verifies_nothing() {
        // The identity point: with lax rules an all-zero signature would fit every message.
        let mut weak = [0; 32];
        weak[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        assert_eq!(PublicKey::Ed25519(weak).verify(b"anything", &signature), Err(BadSignature));
    }

    #[test]
    fn public_keys_print_as_they_parse() {
        let key = EdKey::from_seed(&[1; 32]).public();
        assert_eq!(key.to_string().parse::<PublicKey>(), Ok(key));
        for bad in ["", "ed25519:", "rsa:AAAA", "p256:AAAA", "ed25519:AAAA="] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
    }
}
