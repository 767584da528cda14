//! One test binary: walks with the real programs.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod nodes;
mod operators;
mod gateways;
mod turncoat;
mod ledger;
mod faults;
mod tools;
mod publishing;
mod line;
mod trust;
mod tunnel;
