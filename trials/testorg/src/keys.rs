//! Keys that follow from names, and who signs with them.

use identity::envelope::{Envelope, Payload};
use identity::id::{OrgId, sha256};
use identity::key::{EdKey, P256Key, Sign as _};
use identity::principal::NodeName;
use identity::signers::{Quorum, Signer};

/// A signer's, a gateway's or an invite's.
pub fn key(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

/// A machine's, around this scalar.
pub fn machine_key(scalar: [u8; 32]) -> P256Key {
    const PKCS8: &[u8] = &[
        0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
    ];
    P256Key::from_pkcs8(&[PKCS8, &scalar].concat()).unwrap()
}

pub fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// One who signs alone.
pub fn quorum(name: &str) -> Quorum {
    quorum_of(1, &[name])
}

pub fn quorum_of(threshold: usize, names: &[&str]) -> Quorum {
    let signer = |name: &&str| Signer { name: name.parse().unwrap(), key: key(name).public() };
    Quorum::new(threshold, names.iter().map(signer).collect()).unwrap()
}

pub fn sealed<T: Payload>(org: Option<OrgId>, body: &T, by: &[&str]) -> Envelope {
    signed(Envelope::seal(org, body).unwrap(), by)
}

pub fn signed(mut envelope: Envelope, by: &[&str]) -> Envelope {
    for name in by {
        envelope.sign(&key(name)).unwrap();
    }
    envelope
}
