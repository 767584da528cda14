//! What lies on a machine's disk for one org: its scope.

pub mod scope;
pub(crate) mod refused;
pub mod suspensions;
mod accounts;
pub(crate) mod programs;
pub(crate) mod tunnel;
pub mod damage;
