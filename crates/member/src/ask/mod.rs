//! What a node asks of gateways.

pub mod host;
pub mod source;
pub mod error;
pub mod keep;
pub mod reach;
pub(crate) mod trust;
pub mod call;
pub(crate) mod svid;
pub(crate) mod renew;
pub mod sync;
pub(crate) mod tree;
pub(crate) mod facts;
pub mod enroll;
pub mod weigh;
