//! How much one may take: bounds for all, rate limits for strangers, and quotas for each node and principal.

pub mod bounds;
pub mod large;
pub mod address;
pub mod connections;
pub mod programs;
