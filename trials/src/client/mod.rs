//! Callers that are driven by hand: they say to a gateway whatever the trial wants said.

pub mod stranger;
pub mod joiner;
