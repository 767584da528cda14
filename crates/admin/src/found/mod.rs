//! Founding an org: everything is made in a folder beside its place, and put there by one rename.

mod make;
pub mod recovery;

pub use make::{FoundError, Plan, found};
pub use recovery::Phrase;
