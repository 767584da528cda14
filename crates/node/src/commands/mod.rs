//! The commands of `freehold-node`: each parses, calls one function, prints.

pub mod roots;
pub(crate) mod bundle;
pub mod join;
pub mod csr;
pub mod run;
pub mod tunnel;
pub mod keep;
pub mod service;
pub mod status;
pub mod trust;
pub(crate) mod countdown;
pub mod sync;
pub mod leave;
pub mod doctor;
pub mod gateway;
