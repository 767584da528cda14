//! Framing: how words and bytes are cut into frames, read and written.

pub mod format;
pub(crate) mod buffer;
pub mod reader;
