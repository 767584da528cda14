//! How much one may take: bounds for all, and for each node, address or principal.

pub mod bounds;
pub mod large;
pub mod connections;
pub mod programs;
