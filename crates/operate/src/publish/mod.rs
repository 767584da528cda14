//! What the fleet says, on its way to the nodes: compiled for the members that are, handed in, signed, watched.

pub mod fleet;
pub(crate) mod members;
pub(crate) mod schema;
pub mod heads;
pub(crate) mod low;
pub(crate) mod rollback;
pub mod watch;
pub mod shortening;
pub mod plan;
pub mod run;
pub mod tree;
pub mod around;
