//! Answers: a file for each request.

pub mod vouch;
pub mod issue;
pub mod documents;
pub mod approve;
pub mod enroll;
pub mod reuse;
pub mod renew;
pub mod sync;
pub mod recover;
pub mod show;
pub mod operator;
pub mod exchange;
