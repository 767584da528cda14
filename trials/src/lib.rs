//! Tests of the whole. `place` is a throwaway home with a gateway and nodes, all real processes.

pub mod place;
