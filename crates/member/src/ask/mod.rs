//! What a node asks of gateways.

pub mod host;
pub mod source;
pub mod error;
pub mod keep;
pub mod reach;
pub mod trust;
pub mod call;
pub mod svid;
pub mod renew;
pub mod sync;
pub mod tree;
pub mod facts;
pub mod enroll;
pub mod weigh;
