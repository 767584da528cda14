//! The ledger (an append-only log): heads, what operators signed, and what gateways wrote since. The only judges of
//! what counts.

pub mod entry;
pub mod step;
pub mod signers;
pub mod heads;
pub mod ground;
pub mod counts;
pub mod evidence;
pub mod chain;
pub mod frontier;
pub mod judge;
pub mod fold;
pub mod replica;
pub mod onward;
pub mod draft;

#[cfg(test)]
pub(crate) mod tests;
