//! Who is believed, and who may open what: asked at each stream's opening, and again when it changes.

pub mod table;
pub mod targets;
pub mod pins;
pub(crate) mod denied;
pub mod trust;
pub mod policy;
