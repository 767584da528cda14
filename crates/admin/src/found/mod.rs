//! Founding an org: everything is made in a folder beside its place, and put there by one rename.

pub mod recovery;
pub mod addresses;
pub mod anew;
mod make;

pub use make::{FoundError, FoundingPlan, found};
pub use recovery::Phrase;
