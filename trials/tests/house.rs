//! What a short run asks of the whole: the layout of the house, its documents, and one walk from nothing to a member.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod layout;
mod rooms;
mod documents;
#[path = "nodes/first_walk.rs"]
mod first_walk;
