//! What is served to programs of this machine: SOCKS5, ports that lead to one service, and DNS.

pub(super) mod socks5;
pub(super) mod forward;
pub(super) mod resolver;
