//! The agent: one process per user that holds opened signer keys for a while. Root keys never go there.

pub mod meant;
pub mod rest;
pub mod words;
pub mod place;
pub mod memory;
pub mod holder;
pub mod client;
