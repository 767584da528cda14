//! Many machines from one process, and what they cost the others.

pub mod meter;
pub mod caller;
pub mod machine;
pub mod follower;
pub mod taken;
pub mod rooted;
