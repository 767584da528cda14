//! What people see: errors with their hints, findings, tables, questions, the manual.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod screen;
pub mod facts;
pub(crate) mod typed;
pub mod failure;
pub mod help;
pub mod line;
pub mod show;
pub mod log;
pub mod table;
pub mod confirm;
pub mod again;
pub mod phrase;
pub mod finding;
pub mod pages;
