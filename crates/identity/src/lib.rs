//! Who is who: the names, keys, certificates and signed objects of an org. Pure: no clock, no disk, no socket.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod causes;
pub mod text;
pub mod time;
pub mod id;
pub mod key;
pub mod principal;
pub mod envelope;
pub mod signers;
pub mod members;
pub mod certificate;
pub mod bundle;
pub mod head;
pub mod trust;
pub mod authority;
pub mod verifier;
