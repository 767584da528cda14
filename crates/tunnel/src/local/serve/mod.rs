//! What is served to programs of this machine: SOCKS5, ports that lead to one service, and DNS.

pub mod socks5;
pub mod forward;
pub mod resolver;
