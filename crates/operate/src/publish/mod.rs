//! What the fleet says, on its way to the nodes: compiled for the members that are, handed in, signed, watched.

pub mod fleet;
pub mod members;
pub mod schema;
pub mod heads;
pub mod low;
pub mod rollback;
pub mod watch;
pub mod shortening;
pub mod plan;
pub mod tree;
pub mod around;
