//! What the pure crates may not touch: clock, randomness, files, passphrases. Each in one place.

pub mod clock;
pub mod random;
pub mod file;
pub mod passphrase;
pub mod sealed;
pub mod archive;
