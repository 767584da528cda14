//! How much one may take: bounds for all, rate limits for strangers, and quotas for each node and principal.

pub(crate) mod bounds;
pub(crate) mod large;
pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod programs;
