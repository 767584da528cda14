//! Calls services elsewhere: finds where one is, gets a connection to that node by the better transport, and opens a stream.

pub mod destination;
pub mod choose;
pub mod no_stream;
mod health;
mod pool;
mod queue;
mod connector;
pub mod stream;
pub mod dialer;
mod probe;
