//! Declared state: a fleet of files, checked as one document, compiled into one manifest per node. Pure.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod stored;
pub mod fleet;
pub mod source;
pub mod example;
pub mod compile;
pub mod access;
pub mod diff;
pub mod table;
pub mod emit;

#[cfg(test)]
mod sample;
