//! What operators do, and with which keys: found an org, sign together, recover, go round a bad head.

mod found;
mod at_once;
mod cosign;
mod waiting;
mod inbox;
mod removed_signer;
mod bad_head;
pub(crate) mod recover;
mod frozen;
mod unlock;
mod tokens;
mod typing;
