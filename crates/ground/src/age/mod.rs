//! Files in the format of `age` (age-encryption.org/v1): who opens one, and how its key is wrapped for them.
//!
//! ```text
//! age-encryption.org/v1
//! -> X25519 SHARE            one for each recipient; or a single `-> scrypt SALT WORK` for a passphrase
//! the file's key, wrapped
//! --- MAC
//! nonce 16 | chunk | chunk | ... | last chunk
//! ```
//!
//! The header is here; the chunks are in `archive`. What freehold does not write (armor, plugins, post-quantum
//! recipients) it does not read.

pub(crate) mod bech32;
pub mod keys;
pub mod header;
pub mod wrap;
