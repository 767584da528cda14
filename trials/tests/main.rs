//! One test binary: the layout of the house, and walks with the real programs.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod layout;
mod rooms;
mod documents;
mod nodes;
mod operators;
mod frozen;
mod gateways;
mod turncoat;
mod ledger;
mod faults;
mod tools;
mod publishing;
mod line;
mod trust;
mod tunnel;
