//! Calls services elsewhere: finds where one is, gets a connection to that node by the better transport, and opens a stream.

pub(crate) mod destination;
pub(crate) mod choose;
pub(crate) mod no_stream;
mod health;
mod pool;
mod queue;
mod connector;
pub(crate) mod stream;
pub(crate) mod dialer;
mod probe;
