//! Applying what was offered, so that nothing bricks a node: on trial first, back at the deadline.

pub mod trial;
pub mod record;
pub mod stage;
pub mod probe;
pub mod view;
pub mod engine;
pub mod preview;
pub mod trust;
