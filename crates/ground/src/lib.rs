//! What the pure crates may not touch: clock, randomness, files, passphrases. Each in one place.

pub mod clock;
pub mod random;
pub mod secret;
pub mod file;
pub mod steady;
pub mod token;
pub mod passphrase;
pub mod sealed;
pub mod sealed_box;
pub mod age;
pub mod archive;
