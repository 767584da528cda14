//! Two or three nodes of a small org on real sockets, over both transports.

mod scene;
mod town;
mod carrying;
mod judging;
mod cutting;
mod suspending;
mod rivals;
mod freezing;
mod naming;
mod closing;
mod crowding;
mod calling;
mod relaying;
mod meeting;
mod seeing;
mod entering;
