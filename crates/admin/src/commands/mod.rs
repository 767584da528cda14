//! The commands of `freehold`: each parses, calls one function, prints.

pub mod org;
pub mod found;
pub mod serve;
pub mod invite;
pub mod fleet;
pub mod node;
pub mod audit;
pub mod status;
pub mod release;
pub mod signer;
pub mod gateway;
pub mod trust;
pub mod doctor;
pub mod here;
pub mod backup;
