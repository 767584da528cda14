//! What lies on a gateway's disk beside its ledger: its keys, and the files that it hands out.

pub(crate) mod files;
pub mod folder;
