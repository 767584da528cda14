//! Who plays along: a key for each name, the same in every run.

use identity::id::sha256;
use identity::key::{EdKey, P256Key, PublicKey, Sign};
use identity::time::Timestamp;

pub const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
pub const SIGNERS: [&str; 2] = ["ann", "ben"];
pub const GATEWAYS: [&str; 2] = ["gw-1", "gw-2"];

/// Signers, gateways' voices and invites have Ed25519 keys, nodes have P-256 keys.
pub fn key(name: &str) -> Option<Box<dyn Sign>> {
    match name {
        "ann" | "ben" | "cat" | "safe" | "gw-1" | "gw-2" | "invite-1" => Some(Box::new(ed(name))),
        "node-1" => Some(Box::new(node_key(1))),
        "node-2" => Some(Box::new(node_key(2))),
        "node-3" => Some(Box::new(node_key(3))),
        "node-4" => Some(Box::new(node_key(4))),
        _ => None,
    }
}

pub fn ed(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

pub fn public(name: &str) -> PublicKey {
    key(name).expect("one of the cast").public()
}

/// PKCS#8 around a fixed scalar.
pub fn node_key(n: u8) -> P256Key {
    const HEAD: &[u8] = &[
        0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
    ];
    P256Key::from_pkcs8(&[HEAD, &[n; 32]].concat()).expect("a scalar in range")
}
