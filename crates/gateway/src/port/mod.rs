//! Connections: who calls, over what, and until when.

pub mod door;
pub mod conversation;
pub mod guest;
pub mod endpoint;
pub mod metrics;
pub mod serve;
