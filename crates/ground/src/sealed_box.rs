//! A secret for one machine: sealed to its public seal key, by anybody, readable by nobody else.
//!
//! X25519 with a key pair that is drawn for this box and forgotten, HKDF-SHA256, AES-256-GCM. Who sealed it, a box does
//! not say: what is inside must carry its own authority.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::random::{self, NoRandomness};

/// The first byte of every box.
const FORM: u8 = 1;
const LABEL: &[u8] = b"freehold sealed box v1\0";
/// Form, public half of the box's own key, tag.
const OVERHEAD: usize = 1 + 32 + 16;

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

/// Key and nonce, as long as both together.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        44
    }
}

/// `bound` is not in the box: whoever opens it must know it, and mean the same.
pub fn seal_to(public: &[u8; 32], bound: &[u8], secret: &[u8]) -> Result<Vec<u8>, BadBox> {
    let (own, own_public) = random::x25519()?;
    let (key, nonce) = agree(&own, public, (&own_public, public), bound).ok_or(BadBox::NoKey)?;
    let mut sealed = Zeroizing::new(secret.to_vec());
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound), &mut sealed).map_err(|_| BadBox::NoKey)?;
    Ok([&[FORM][..], &own_public, &sealed, tag.as_ref()].concat())
}

pub fn open(secret: &[u8; 32], bound: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadBox> {
    let (form, rest) = sealed.split_first().ok_or(BadBox::NotForUs)?;
    if *form != FORM {
        return Err(BadBox::OtherForm);
    }
    if sealed.len() < OVERHEAD {
        return Err(BadBox::NotForUs);
    }
    let (theirs, inside) = rest.split_first_chunk::<32>().ok_or(BadBox::NotForUs)?;
    let public = random::x25519_public(secret)?;
    let (key, nonce) = agree(secret, theirs, (theirs, &public), bound).ok_or(BadBox::NotForUs)?;
    let mut inside = Zeroizing::new(inside.to_vec());
    let length = key.open_in_place(nonce, Aad::from(bound), &mut inside[..]).map_err(|_| BadBox::NotForUs)?.len();
    inside.truncate(length);
    Ok(inside)
}

/// One key and nonce for each box: both public keys and what it is bound to go into them.
fn agree(
    secret: &[u8; 32],
    other: &[u8; 32],
    (boxs, machines): (&[u8; 32], &[u8; 32]),
    bound: &[u8],
) -> Option<(LessSafeKey, Nonce)> {
    let secret = PrivateKey::from_private_key(&X25519, secret).ok()?;
    let salt = [&boxs[..], machines].concat();
    let derived = agreement::agree(&secret, UnparsedPublicKey::new(&X25519, other), (), |shared| {
        let mut out = Zeroizing::new([0; 44]);
        let info: [&[u8]; 2] = [LABEL, bound];
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
    use super::*;

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

    #[test]
    fn a_box_that_was_changed_anywhere_or_cut_does_not_open() {
        let (secret, public) = random::x25519().unwrap();
        let sealed = seal_to(&public, b"harbor", b"manifest").unwrap();
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
        assert_eq!(open(&secret, b"harbor", &[2; 60]).unwrap_err(), BadBox::OtherForm);
    }

    #[test]
    fn a_key_that_gives_no_secret_is_refused() {
        assert_eq!(seal_to(&[0; 32], b"", b"x").unwrap_err(), BadBox::NoKey);
    }
}
