//! Who is believed, and who may open what.

pub mod table;
pub mod pins;
pub mod standing;
