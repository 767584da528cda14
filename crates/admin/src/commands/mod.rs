//! The commands of `freehold`: each parses, calls one function, prints.

pub mod found;
pub mod serve;
pub mod invite;
pub mod node;
pub mod replace;
pub mod audit;
pub mod refresh;
pub mod unlock;
pub mod token;
pub mod org;
pub mod sign;
pub mod send;
pub mod suspend;
pub mod signer;
pub mod recover;
pub mod epoch;
pub mod mandate;
pub mod doctor;
pub mod backup;
pub mod check;
pub mod access;
pub mod compile;
pub mod fleet;
