//! How something becomes durable, and what readers see of it then.

pub(crate) mod tips;
pub(crate) mod jottings;
pub(crate) mod peers;
pub(crate) mod told;
pub(crate) mod published;
pub(crate) mod suspended;
pub(crate) mod desk;
pub mod presence;
pub(crate) mod merge;
pub(crate) mod writer;
