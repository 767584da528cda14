//! Peers: who is believed, who no longer is, and what news they bring.

mod handing;
mod judging;
mod suspending;
mod rivals;
mod freezing;
mod naming;
