//! Connections between two nodes, on either transport: a handshake, hellos, and streams.

pub mod protocol;
pub mod timeouts;
pub mod tcp;
pub mod bind;
mod read_ahead;
pub mod hello;
pub mod no_connection;
pub mod tls;
pub mod relayed;
pub mod quic;
