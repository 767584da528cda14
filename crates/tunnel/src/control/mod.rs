//! The control channel between the agent and the tunnel's process (as xDS for Envoy): orders there, events back.
//!
//! Each order is whole in itself and takes the place of the last one of its kind; only `Order::Pin` adds to what was said
//! before. `TunnelEvent::Done` says that an order is in force: from then on nothing is opened that it forbids.

pub mod listener;
pub mod view;
pub mod question;
pub mod order;
pub mod event;
