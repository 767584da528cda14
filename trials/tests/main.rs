//! One test binary: the layout of the house, and walks with the real programs.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod layout;
mod first_walk;
mod founding;
mod declaring;
mod joining;
mod refusals;
mod gateway;
mod auditing;
mod staying;
mod killing;
mod operators;
mod together;
mod recovering;
mod restoring;
mod unlocking;
mod tokens;
mod hostile;
mod lying;
mod going_back;
mod comfort;
mod backing_up;
mod migrating;
mod fixtures;
mod bad_days;
mod publishing;
mod syncing;
mod carrying;
mod compiling;
mod forgetting;
mod applying;
mod kinds;
mod gateways;
mod line;
mod releasing;
mod approving;
mod presenting;
mod trusting;
mod hindsight;
mod turning;
mod homecoming;
mod rotating;
mod tunneling;
mod programs;
mod hosts;
