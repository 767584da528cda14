//! Frames: how words and bytes are cut up on a connection between two nodes.

pub mod format;
pub(crate) mod buffer;
pub mod reader;
