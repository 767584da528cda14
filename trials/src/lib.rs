//! Tests of the whole. `place` is a throwaway home with a gateway and nodes, all real processes; the others attack
//! it, measure it, or put load on it.

pub mod dice;
pub mod scene;
pub mod port;
pub mod place;
pub mod versions;
pub mod lan;
pub mod door;
pub mod fixture;
pub mod faults;
pub mod forgetful;
pub mod stranger;
pub mod joiner;
pub mod thief;
pub mod intruder;
pub mod impostor;
pub mod between;
pub mod liar;
pub mod shelf;
pub mod meter;
pub mod caller;
pub mod machine;
pub mod follower;
pub mod taken;
pub mod rooted;
