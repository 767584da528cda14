//! The agent (as `ssh-agent`): one process per user that holds opened signer keys for a while. Root keys never go there.

pub(crate) mod meant;
pub(crate) mod rest;
pub mod words;
pub mod place;
pub(crate) mod memory;
pub mod holder;
pub mod client;
