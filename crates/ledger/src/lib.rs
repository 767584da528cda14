//! A replica's ledger on disk: entries, what came beside them, what was observed. Gateways and homes use it.

pub mod error;
pub mod migrate;
pub mod store;
pub mod look;
pub mod check;
pub mod replicate;

// What it says, for people.
pub mod views;

// What is kept beside the entries.
pub mod marks;
pub mod sights;
pub mod published;
pub mod maps;
pub mod claims;
pub mod reuse;
pub mod exchange;
