//! What a node asks of gateways.

pub mod call;
pub mod svid;
pub mod enroll;
pub mod renew;
pub mod sync;
