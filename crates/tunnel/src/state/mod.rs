//! What the tunnel's parts share: what was handed in, what is open, and what is counted.

pub(crate) mod socket;
pub mod streams;
pub(crate) mod callers;
pub(crate) mod meter;
pub(crate) mod log_limit;
pub(crate) mod log;
pub(crate) mod svids;
pub mod shared;
