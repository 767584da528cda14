//! Names of services for programs of this machine: an address for each, and DNS to find it.

pub mod addresses;
pub mod dns;
