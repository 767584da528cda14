//! Answers: a file for each request.

pub(crate) mod vouch;
pub mod issue;
pub(crate) mod documents;
pub(crate) mod approve;
pub(crate) mod enroll;
pub(crate) mod reuse;
pub(crate) mod renew;
pub(crate) mod sync;
pub(crate) mod recover;
pub(crate) mod show;
pub mod operator;
pub(crate) mod exchange;
