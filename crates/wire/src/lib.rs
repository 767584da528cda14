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
pub mod frame;
pub mod carry;
pub(crate) mod socks;
pub mod proxied;
pub mod way;
pub mod known;
pub mod freeze;
pub mod clocks;
#[cfg(test)]
mod scene;
pub mod tree;
pub(crate) mod standing;
pub mod connect;
pub mod trust;
