//! A secret for one machine (HPKE): sealed to its public seal key, by anybody, readable by nobody else.
//!
//! HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305. Who sealed it, a box does not
//! say: what is inside must carry its own authority. Boxes of the first form, which was our own, still open.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_CHACHA20_POLY1305 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke as _, HpkePrivateKey, HpkePublicKey};
use zeroize::Zeroizing;

use crate::random::{self, NoRandomness};

/// The first byte of every box.
const FORM: u8 = 2;
/// Read, never written.
const FIRST_FORM: u8 = 1;
const LABEL: &[u8] = b"freehold sealed box v2\0";
const FIRST_LABEL: &[u8] = b"freehold sealed box v1\0";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBox {
    #[error("it is of a form that this program does not know: upgrade it")]
    OtherForm,
    #[error("it was not sealed to this machine's key and for this purpose, or it was changed")]
    NotForUs,
    #[error("the key that it should be sealed to is no key")]
    NoKey,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// `bound` is not in the box: whoever opens it must know it, and mean the same.
pub fn seal_to(public: &[u8; 32], bound: &[u8], secret: &[u8]) -> Result<Vec<u8>, BadBox> {
    let sealed = SUITE.seal(&info(bound), &[], secret, &HpkePublicKey(public.to_vec()));
    let (own, sealed) = sealed.map_err(|_| BadBox::NoKey)?;
    Ok([&[FORM][..], &own.0, &sealed].concat())
}

pub fn open(secret: &[u8; 32], bound: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadBox> {
    let (form, rest) = sealed.split_first().ok_or(BadBox::NotForUs)?;
    let (theirs, inside) = match *form {
        FORM | FIRST_FORM => rest.split_first_chunk::<32>().ok_or(BadBox::NotForUs)?,
        _ => return Err(BadBox::OtherForm),
    };
    if *form == FIRST_FORM {
        return open_first(secret, bound, theirs, inside);
    }
    let (theirs, secret) = (EncapsulatedSecret(theirs.to_vec()), HpkePrivateKey::from(secret.to_vec()));
    SUITE.open(&theirs, &info(bound), &[], inside, &secret).map(Zeroizing::new).map_err(|_| BadBox::NotForUs)
}

/// RFC 9180 wants what is authenticated beside a single message here, not in the additional data (section 8.1).
fn info(bound: &[u8]) -> Vec<u8> {
    [LABEL, bound].concat()
}

/// X25519, HKDF-SHA256 and AES-256-GCM, put together by us.
fn open_first(secret: &[u8; 32], bound: &[u8], theirs: &[u8; 32], inside: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadBox> {
    let public = random::x25519_public(secret)?;
    let (key, nonce) = agree(secret, theirs, theirs, &public, bound).ok_or(BadBox::NotForUs)?;
    let mut inside = Zeroizing::new(inside.to_vec());
    let length = key.open_in_place(nonce, Aad::from(bound), &mut inside[..]).map_err(|_| BadBox::NotForUs)?.len();
    inside.truncate(length);
    Ok(inside)
}

/// Key and nonce, as long as both together.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        44
    }
}

/// One key and nonce for each box: both public keys and what it is bound to go into them.
fn agree(
    secret: &[u8; 32],
    other: &[u8; 32],
    boxs: &[u8; 32],
    machines: &[u8; 32],
    bound: &[u8],
) -> Option<(LessSafeKey, Nonce)> {
    let secret = PrivateKey::from_private_key(&X25519, secret).ok()?;
    let salt = [&boxs[..], machines].concat();
    let derived = agreement::agree(&secret, UnparsedPublicKey::new(&X25519, other), (), |shared| {
        let mut out = Zeroizing::new([0; 44]);
        let info: [&[u8]; 2] = [FIRST_LABEL, bound];
        let extracted = Salt::new(HKDF_SHA256, &salt).extract(shared);
        extracted.expand(&info, Length).and_then(|expanded| expanded.fill(&mut out[..])).map_err(drop)?;
        Ok(out)
    });
    let derived = derived.ok()?;
    let (key, nonce) = derived.split_first_chunk::<32>()?;
    let key = UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).ok()?;
    Some((key, Nonce::try_assume_unique_for_key(nonce).ok()?))
}

#[cfg(test)]
mod tests {
    use identity::text::from_hex;

    use super::*;

    /// RFC 9180, A.2.1, the first message.
    #[test]
    fn the_suite_is_that_of_the_standard() {
        let hex = |text: &str| from_hex(text).unwrap();
        let secret = HpkePrivateKey::from(hex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb"));
        let own = EncapsulatedSecret(hex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a"));
        let sealed = hex(concat!(
            "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db",
            "21993c62ce81883d2dd1b51a28"
        ));
        let opened = SUITE.open(&own, b"Ode on a Grecian Urn", b"Count-0", &sealed, &secret).unwrap();
        assert_eq!(opened, b"Beauty is truth, truth beauty");
    }

    #[test]
    fn only_the_machine_that_is_meant_opens_it_and_only_for_what_it_was_made() {
        let ((secret, public), (other, _)) = (random::x25519().unwrap(), random::x25519().unwrap());
        let sealed = seal_to(&public, b"harbor", b"manifest").unwrap();
        assert_eq!(&open(&secret, b"harbor", &sealed).unwrap()[..], b"manifest");
        assert_eq!(open(&other, b"harbor", &sealed).unwrap_err(), BadBox::NotForUs);
        assert_eq!(open(&secret, b"haven", &sealed).unwrap_err(), BadBox::NotForUs);
        assert!(!sealed.windows(8).any(|window| window == b"manifest"));
        assert_ne!(sealed, seal_to(&public, b"harbor", b"manifest").unwrap(), "no two boxes have one key");
    }

    /// As the programs of the first release sealed.
    fn seal_first(public: &[u8; 32], bound: &[u8], secret: &[u8]) -> Vec<u8> {
        let (own, own_public) = random::x25519().unwrap();
        let (key, nonce) = agree(&own, public, &own_public, public, bound).unwrap();
        let mut sealed = secret.to_vec();
        key.seal_in_place_append_tag(nonce, Aad::from(bound), &mut sealed).unwrap();
        [&[FIRST_FORM][..], &own_public, &sealed].concat()
    }

    #[test]
    fn a_box_of_the_first_form_still_opens_and_only_as_that() {
        let ((secret, public), (other, _)) = (random::x25519().unwrap(), random::x25519().unwrap());
        let mut sealed = seal_first(&public, b"harbor", b"manifest");
        assert_eq!(&open(&secret, b"harbor", &sealed).unwrap()[..], b"manifest");
        assert_eq!(open(&secret, b"haven", &sealed).unwrap_err(), BadBox::NotForUs);
        assert_eq!(open(&other, b"harbor", &sealed).unwrap_err(), BadBox::NotForUs);
        sealed[0] = FORM;
        assert_eq!(open(&secret, b"harbor", &sealed).unwrap_err(), BadBox::NotForUs);
        assert_eq!(seal_to(&public, b"harbor", b"manifest").unwrap()[0], FORM, "nobody writes it any more");
    }

    #[test]
    fn a_box_that_was_changed_anywhere_or_cut_does_not_open() {
        let (secret, public) = random::x25519().unwrap();
        for sealed in [seal_to(&public, b"harbor", b"manifest").unwrap(), seal_first(&public, b"harbor", b"manifest")] {
            for at in 0..sealed.len() {
                for bit in 0..8 {
                    let mut changed = sealed.clone();
                    changed[at] ^= 1 << bit;
                    // The highest bit of an X25519 key is no part of it; it is of the box, so that still nothing opens.
                    let opened = open(&secret, b"harbor", &changed);
                    assert!(opened.is_err(), "bit {bit} of byte {at}");
                }
                assert!(open(&secret, b"harbor", &sealed[..at]).is_err(), "cut at {at}");
            }
        }
        assert_eq!(open(&secret, b"harbor", &[3; 60]).unwrap_err(), BadBox::OtherForm);
    }

    #[test]
    fn a_key_that_gives_no_secret_is_refused() {
        assert_eq!(seal_to(&[0; 32], b"", b"x").unwrap_err(), BadBox::NoKey);
    }
}
