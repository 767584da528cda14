//! The data plane: carries TCP between principals of one org, and decides at each stream's opening.
//!
//! It runs as a process of its own, which the agent feeds: it reads no file, and knows nothing that it was not handed.

#![cfg_attr(not(test), warn(unreachable_pub))]

// What is said, and how it is written.
pub mod control;
mod limit;
pub mod frame;

// What is decided, and what is kept.
pub mod access;
pub mod state;

// What goes over the network.
mod transport;
pub mod stream;
mod relay;
mod dial;
mod accept;

// Ways in for programs of this machine.
pub mod local;

// The process.
pub mod process;

#[cfg(test)]
mod tests;
