//! The tunnel's process: what it gives up first, and how it obeys the agent.

pub mod sandbox;
pub mod obey;
