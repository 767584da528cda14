//! Connections: who calls, over what, and until when.

pub mod ingress;
pub mod conversation;
pub(crate) mod guest;
pub mod endpoint;
pub(crate) mod metrics;
pub mod serve;
