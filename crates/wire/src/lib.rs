//! Every conversation: who may ask what, over which TLS, in which words.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod permit;
pub mod enroll;
pub mod written;
pub mod sync;
pub mod control;
pub mod exchange;
pub mod peer;
pub mod tls;
pub mod http;
pub mod carry;
pub mod known;
#[cfg(test)]
mod scene;
pub mod tree;
pub mod connect;
pub mod trust;
