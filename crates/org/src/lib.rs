//! What an org decides: who may join, what its signed history says, what is true now. Pure.

// Objects that are signed or sent.
pub mod refusal;
pub mod founding;
pub mod code;
pub mod invite;
pub mod words;
pub mod approve;
pub mod admission;
pub mod report;
pub mod carried;
pub mod gateway;
pub mod executable;
pub mod release;

// The ledger's entries, and the state that they add up to.
pub mod frontier;
pub mod entry;
pub mod state;

// What signers change: a file for each.
pub mod signer;
pub mod recover;
pub mod restore;
pub mod head;
pub mod install;
pub mod trust;
pub mod suspend;
pub mod suspended;
pub mod consent;
pub mod decide;

// One entry, all entries, and the state as rows.
pub mod enroll;
pub mod grant;
pub mod effect;
pub mod fold;
pub mod derived;

// The ledger's rules, each asked in one place.
pub mod ledger;

// Questions to the state.
pub mod renew;
pub mod survival;
pub mod member;
pub mod peer;
pub mod audit;
pub mod hindsight;

#[cfg(test)]
mod tests;
