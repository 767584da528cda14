//! Applying what was offered, so that nothing bricks a node: on trial first, back at the deadline.

pub(crate) mod unfit;
pub mod trial;
pub(crate) mod record;
pub mod stage;
pub mod keeper;
pub(crate) mod probe;
pub mod view;
pub(crate) mod engine;
pub mod preview;
pub mod trust;
