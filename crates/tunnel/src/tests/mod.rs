//! Two or three nodes of a small org on real sockets, over both transports.

mod scene;
mod town;
mod streams;
mod calls;
mod peers;
mod relays;
