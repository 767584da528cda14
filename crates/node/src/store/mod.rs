//! What lies on a machine's disk: a node's scope, a gateway's folder, a gateway's ledger.

pub mod scope;
pub mod refused;
pub mod tunnel;
pub mod files;
pub mod waiting;
pub mod gateway;
pub mod migrate;
pub mod ledger;
pub mod marks;
pub mod sights;
pub mod published;
pub mod reuse;
pub mod exchange;
pub mod claims;
pub mod check;
