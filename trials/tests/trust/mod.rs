//! The trusted roots: what operators read and command, what machines take, what gateways show, and whole rotations.

mod lifetimes;
mod table;
mod commands;
pub(crate) mod present;
mod adopt;
mod rotate;
