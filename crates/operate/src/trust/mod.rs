//! The trusted roots: who goes by which version, what depends on one, and the steps by which another takes its place.

pub mod lifetimes;
pub mod roots;
pub mod versions;
pub mod issuers;
pub mod adopted;
pub mod step;
pub mod outside;
pub mod stolen;
pub mod stranded;
pub mod dependents;
pub mod retire;
pub mod stage;
pub mod rotate;
