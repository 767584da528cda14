//! What operators' tools ask: to look, to stage what a head will name, to hand in what was signed.

pub(crate) mod trust;
pub(crate) mod files;
pub(crate) mod stage;
pub mod inbox;
pub mod control;
