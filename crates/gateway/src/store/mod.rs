//! What lies on a gateway's disk beside its ledger: its keys, and the files that it hands out.

pub mod files;
pub mod folder;
