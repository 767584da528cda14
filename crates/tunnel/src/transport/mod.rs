//! Connections between two nodes, on either transport: a handshake, hellos, and streams.

pub(crate) mod protocol;
pub(crate) mod timeouts;
pub(crate) mod tcp;
pub(crate) mod bind;
mod read_ahead;
pub(crate) mod hello;
pub(crate) mod no_connection;
pub(crate) mod tls;
pub(crate) mod relayed;
pub(crate) mod quic;
