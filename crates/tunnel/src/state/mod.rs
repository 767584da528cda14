//! What the tunnel's parts share: what was handed in, what is open, and what is counted.

pub mod socket;
pub mod streams;
pub mod callers;
pub mod meter;
pub mod log_limit;
pub mod log;
pub mod svids;
pub mod shared;
