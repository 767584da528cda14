//! How much an asker may take, what is counted, what holds the gateway back.

pub mod limits;
pub(crate) mod download;
pub(crate) mod registry;
pub(crate) mod tally;
pub(crate) mod halt;
