//! Tests of the whole. `place` is a throwaway home with a gateway and nodes, all real processes; the folders attack it,
//! measure it, put load on it, or have bad weather come over it.

pub mod dice;
pub mod scene;
pub mod port;
pub mod place;
pub mod versions;
pub mod fixture;
pub mod network;
pub mod faults;
pub mod client;
pub mod attack;
pub mod load;
