//! Asking other gateways: for what is lacking here, for files, for the whole ledger at first.

pub(crate) mod mesh;
pub(crate) mod fetch;
pub mod peering;
pub mod begin;
