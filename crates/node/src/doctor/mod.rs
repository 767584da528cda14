//! What a doctor looks at on a machine. Looks only, changes nothing.

pub(crate) mod files;
pub mod standing;
pub mod reach;
pub mod examination;
pub(crate) mod trust;
pub(crate) mod process;
pub(crate) mod member;
pub(crate) mod service;
