//! Connections: who calls, over what, and until when.

pub mod door;
pub mod conversation;
pub(crate) mod guest;
pub mod endpoint;
pub(crate) mod metrics;
pub mod serve;
