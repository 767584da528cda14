//! Tests of the whole. `place` is a throwaway home with a gateway and nodes, all real processes; the others attack it.

pub mod place;
pub mod faults;
pub mod stranger;
pub mod joiner;
pub mod thief;
pub mod impostor;
