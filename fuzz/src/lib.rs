//! Laws that must hold for every input, whoever made it. Each target has its seeds, made of real objects, and its check.
#![forbid(unsafe_code)]

pub mod cast;
pub mod sealing;
pub mod laws;
pub mod pieces;
pub mod harbor;
pub mod targets;
