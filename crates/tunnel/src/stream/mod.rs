//! One stream: let in, carried, and ended.

pub mod proxy_header;
pub(crate) mod end;
mod progress;
mod far;
pub(crate) mod pipe;
pub(crate) mod admit;
