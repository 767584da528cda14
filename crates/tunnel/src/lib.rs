//! The data plane: carries TCP between principals of one org, and decides at each stream's opening.
//!
//! It runs as a process of its own, which the agent feeds: it reads no file, and knows nothing that it was not handed.

// What is said, and how it is written.
pub mod frame;
pub mod orders;
pub mod names;

// What is decided.
pub mod access_table;
pub mod standing;
pub mod choose;

// What is kept count of, and what is shared.
pub mod meter;
pub mod live;
pub mod held;

// The process.
pub mod sandbox;
pub mod peers;
pub mod process;
