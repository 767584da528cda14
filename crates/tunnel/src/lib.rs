//! The data plane: carries TCP between principals of one org, and decides at each stream's opening.
//!
//! It runs as a process of its own, which the agent feeds: it reads no file, and knows nothing that it was not handed.

// What is said, and how it is written.
pub mod frame;
pub mod orders;
pub mod names;
pub mod proxy_header;

// What is decided.
pub mod access_table;
pub mod pins;
pub mod standing;
pub mod choose;

// What is kept count of, and what is shared.
pub mod meter;
pub mod socket;
pub mod live;
pub mod limit;
pub mod log;
pub mod bounds;
pub mod long;
pub mod door;
pub mod callers;
pub mod held;

// What goes over the network.
mod room;
pub mod line;
pub mod pipe;
pub mod admit;
pub mod relay;
pub mod accept;
pub mod dial;
pub mod attend;

// Ways in for programs of this machine.
pub mod ways;

// The process.
pub mod sandbox;
pub mod peers;
pub mod process;

#[cfg(test)]
mod tests;
