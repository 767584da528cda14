//! A node as a relay: who waits at it, whose turn it is, and what it carries between two others.

mod fair_queue;
pub(crate) mod rendezvous;
pub(crate) mod carry;
