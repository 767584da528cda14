//! Ways in for programs of this machine: SOCKS5, local ports, and addresses that names resolve to. All lead to the dialer.
//!
//! What is listened at follows from what the fleet says and who is at home here. What stays is not touched by what comes or
//! goes, and a listener that is gone lets the streams be which it took in. UDP is not carried.

// What is said.
pub mod socks_words;
pub mod names;
pub mod pointers;

// What is decided.
pub mod ports;
pub mod auth;
pub mod plan;

// What is done.
mod opens;
mod shared;
mod serve;
pub(crate) mod listeners;

#[cfg(test)]
mod tests;
