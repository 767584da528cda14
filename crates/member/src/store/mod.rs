//! What lies on a machine's disk for one org: its scope.

pub mod scope;
pub mod refused;
pub mod suspensions;
pub mod tunnel;
pub mod waiting;
