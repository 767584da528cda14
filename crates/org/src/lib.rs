//! What an org decides: who may join, what its signed history says, what is true now. Pure.

#![cfg_attr(not(test), warn(unreachable_pub))]

// Objects that are signed or sent.
pub mod refusal;
pub mod founding;
pub mod invite;
pub mod report;
pub mod gateway;
pub mod release;
pub mod suspend;

// The ledger's entries and its rules, each asked in one place.
pub mod ledger;

// What is true now, and how it comes to be.
pub mod state;
pub mod enroll;

// Questions to the state.
pub mod member;
pub mod audit;

#[cfg(test)]
mod tests;
