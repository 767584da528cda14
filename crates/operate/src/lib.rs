//! What an operator does, as a library: sign, and hand over what was signed. It cannot found.

#![cfg_attr(not(test), warn(unreachable_pub))]

// What lies in the operator's home, and the keys at hand.
pub mod folder;
pub mod key;
pub mod pending;
pub mod replica;

// One command: looks, signs, hands in.
pub mod session;

// What is decided.
pub mod node;
pub mod trust;
pub mod gateway;
pub mod release;
pub mod invite;
pub mod signer;
pub mod publish;

// What is looked at and kept.
pub mod audit;
pub mod backup;
