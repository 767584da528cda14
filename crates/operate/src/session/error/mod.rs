//! Why an operator's command is refused, in words.

pub mod distrust;
pub mod trust;
