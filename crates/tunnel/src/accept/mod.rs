//! Where peers come in: over TLS, over QUIC, or by a relay, and what becomes of what they want.

mod handshake;
mod streams;
pub mod tls;
pub mod quic;
pub mod by_relay;
pub mod listen;
