//! Asking other gateways: for what is lacking here, for files, for the whole ledger at first.

pub mod mesh;
pub mod fetch;
pub mod company;
pub mod begin;
