//! How much an asker may take, what is counted, what holds the gateway back.

pub mod limits;
pub mod crowd;
pub mod download;
pub mod registry;
pub mod tally;
pub mod halt;
