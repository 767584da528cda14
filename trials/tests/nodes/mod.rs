//! A machine's life in an org: invited, let in, kept a member, told what to be, and out again.

mod join;
mod refusals;
mod killed;
mod membership;
mod invites;
pub(crate) mod approve;
pub(crate) mod release;
mod lying_gateway;
mod rollback;
mod apply;
mod sync;
mod programs;
