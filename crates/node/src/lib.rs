//! A machine's own commands, and what they need of the system that they run on.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub(crate) mod program;
pub mod doctor;
pub(crate) mod service;
pub mod serving;
pub mod commands;
