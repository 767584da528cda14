//! What the pure crates may not touch: clock, randomness, files, passphrases, shared counts. Each in one place.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod plain;
pub mod clock;
pub mod random;
pub mod secret;
pub mod quota;
pub mod file;
pub mod steady;
pub mod token;
pub mod passphrase;
pub mod sealed;
pub mod sealed_box;
pub mod age;
pub mod archive;
