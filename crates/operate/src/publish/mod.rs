//! What the fleet says, on its way to the nodes: compiled for the members that are, handed in, signed, watched.

pub mod reports;
pub mod published;
pub mod members;
pub mod schema;
pub mod git;
pub mod stage;
pub mod heads;
pub mod low;
pub mod patterns;
pub mod rollback;
pub mod watch;
pub mod shortening;
pub mod plan;
pub mod consent;
pub mod tree;
