//! Whoever stole keys or a disk, and gateways that lie with them.

pub mod thief;
pub mod intruder;
pub mod impostor;
pub mod between;
pub mod liar;
