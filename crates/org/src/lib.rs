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

// The ledger's entries and its rules, each asked in one place.
pub mod entry;
pub mod ledger;
pub mod frontier;

// What is true now, and how it comes to be.
pub mod suspend;
pub mod suspended;
pub mod consent;
pub mod state;
pub mod signer;
pub mod head;
pub mod trust;
pub mod decide;
pub mod conclude;
pub mod settle;
pub mod enroll;
pub mod grant;
pub mod take;
pub mod accept;

// Questions to the state.
pub mod renew;
pub mod survival;
pub mod member;
pub mod peer;
pub mod audit;
pub mod hindsight;

#[cfg(test)]
mod tests;
