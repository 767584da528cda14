//! A replica's ledger on disk: entries, what came beside them, what was observed. Gateways and homes use it.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod damage;
pub mod error;
pub(crate) mod migrate;
pub mod store;
pub mod look;
pub mod waiting;
pub(crate) mod check;
pub mod replicate;

// What it says, for people.
pub mod views;

// What is kept beside the entries.
pub mod marks;
pub(crate) mod sights;
pub mod published;
pub(crate) mod maps;
pub(crate) mod reuse;
pub(crate) mod exchange;
