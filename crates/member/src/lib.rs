//! A machine in an org: what it keeps, what it asks, what it applies, and the agent that does so by itself.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod store;
#[cfg(test)]
mod scene;
pub mod apply;
pub mod ask;
pub mod agent;
