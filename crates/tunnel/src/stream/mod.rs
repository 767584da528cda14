//! One stream: let in, carried, and ended.

pub mod proxy_header;
pub mod end;
mod progress;
mod far;
pub mod pipe;
pub mod admit;
