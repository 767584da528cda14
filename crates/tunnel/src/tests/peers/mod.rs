//! Peers: who is believed, who no longer is, and what news they bring.

mod judging;
mod suspending;
mod rivals;
mod freezing;
mod naming;
