//! Nonces, serials, secrets and keys. The only place that draws them.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use aws_lc_rs::{agreement, rand};
use identity::id::{Correlation, InviteId, Serial};
use identity::key::{EdKey, P256Key};
use zeroize::Zeroizing;

/// The system gave no randomness: nothing safe can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random numbers")]
pub struct NoRandomness;

pub fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut out = [0; N];
    rand::fill(&mut out).map_err(|_| NoRandomness)?;
    Ok(out)
}

pub fn serial() -> Result<Serial, NoRandomness> {
    let mut serial: [u8; 16] = bytes()?;
    // Positive, and never shorter than sixteen bytes: one written form.
    serial[0] = (serial[0] & 0x3f) | 0x40;
    Ok(Serial(serial))
}

pub fn invite_id() -> Result<InviteId, NoRandomness> {
    bytes().map(InviteId)
}

pub fn correlation() -> Result<Correlation, NoRandomness> {
    bytes().map(Correlation)
}

pub fn ed25519() -> Result<EdKey, NoRandomness> {
    let seed = Zeroizing::new(bytes::<32>()?);
    Ok(EdKey::from_seed(&seed))
}

pub fn p256() -> Result<P256Key, NoRandomness> {
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &rand::SystemRandom::new())
        .map_err(|_| NoRandomness)?;
    P256Key::from_pkcs8(document.as_ref()).map_err(|_| NoRandomness)
}

/// An X25519 key pair: the secret, and the public half.
pub fn x25519() -> Result<(Zeroizing<[u8; 32]>, [u8; 32]), NoRandomness> {
    let secret = Zeroizing::new(bytes::<32>()?);
    Ok((secret.clone(), x25519_public(&secret)?))
}

pub fn x25519_public(secret: &[u8; 32]) -> Result<[u8; 32], NoRandomness> {
    let key = agreement::PrivateKey::from_private_key(&agreement::X25519, secret).map_err(|_| NoRandomness)?;
    let public = key.compute_public_key().map_err(|_| NoRandomness)?;
    public.as_ref().try_into().map_err(|_| NoRandomness)
}
