//! A machine's own commands, and what they need of the system that they run on.

pub mod program;
pub mod doctor;
pub mod service;
pub mod commands;
