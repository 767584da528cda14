//! Streams: carried, cut, closed, and too many of them.

pub mod carrying;
pub mod cutting;
pub mod closing;
mod crowding;
