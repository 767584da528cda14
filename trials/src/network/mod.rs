//! Networks of a trial's own: machines apart from each other, a way that can be shut, a server of files.

pub mod lan;
pub mod forwarder;
pub mod shelf;
