//! What lies on a machine's disk: a node's scope, a gateway's folder.

pub mod scope;
pub mod refused;
pub mod suspensions;
pub mod tunnel;
pub mod files;
pub mod waiting;
pub mod gateway;
