//! How something becomes durable, and what readers see of it then.

pub mod tips;
pub mod jottings;
pub mod peers;
pub mod told;
pub mod published;
pub mod suspended;
pub mod desk;
pub mod presence;
pub mod merge;
pub mod writer;
