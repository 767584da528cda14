//! What operators' tools ask: to look, to stage what a head will name, to hand in what was signed.

pub mod trust;
pub mod files;
pub mod stage;
pub mod control;
