//! The commands of `freehold`: each parses, calls one function, prints.

pub mod found;
pub mod serve;
pub mod invite;
pub mod node;
pub mod replace;
pub mod audit;
pub mod refresh;
pub mod org;
