//! Where peers come in: over TLS, over QUIC, or by a relay, and what becomes of what they want.

mod handshake;
mod streams;
pub(crate) mod tls;
pub(crate) mod quic;
mod backoff;
pub(crate) mod by_relay;
pub(crate) mod listen;
