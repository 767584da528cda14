//! How something becomes durable, and what readers see of it then.

pub(crate) mod places;
pub(crate) mod tips;
pub(crate) mod observations;
pub(crate) mod peers;
pub(crate) mod told;
pub(crate) mod published;
pub(crate) mod suspended;
pub(crate) mod transaction;
pub mod issuers;
pub(crate) mod writer;
