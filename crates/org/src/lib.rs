//! What an org decides: who may join, what its signed history says, what is true now. Pure.

pub mod refusal;
pub mod founding;
pub mod code;
pub mod invite;
pub mod admission;
pub mod frontier;
pub mod entry;
pub mod state;
pub mod signer;
pub mod recover;
pub mod restore;
pub mod head;
pub mod install;
pub mod suspend;
pub mod grant;
pub mod effect;
pub mod fold;
pub mod derived;
pub mod enroll;
pub mod renew;
pub mod member;
pub mod audit;

#[cfg(test)]
mod tests;
