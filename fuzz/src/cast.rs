//! Who plays along: a key for each name, the same in every run.

use identity::key::{P256Key, PublicKey, Sign};
pub use testorg::{NOW, key as ed};

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

pub fn public(name: &str) -> PublicKey {
    key(name).expect("one of the cast").public()
}

pub fn node_key(n: u8) -> P256Key {
    testorg::machine_key([n; 32])
}
