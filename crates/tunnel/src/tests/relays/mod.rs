//! Relays: nodes without an address, and those who call them.

pub mod relaying;
mod meeting;
mod returning;
