//! Backups of a home: made, checked, restored. What is in the file is `operate::backup`; here is the ledger too.

pub mod scratch;
pub mod make;
pub mod roots;
pub mod check;
pub mod restore;
pub mod reminder;
