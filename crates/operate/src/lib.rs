//! What an operator does, as a library: sign, and hand over what was signed. It cannot found.

pub mod folder;
pub mod token;
pub mod agent;
pub mod keys;
pub mod pending;
pub mod describe;
pub mod desk;
pub mod remote;
pub mod session;
pub mod head;
pub mod timely;
pub mod invite;
pub mod node;
pub mod mandate;
pub mod replace;
pub mod signers;
pub mod suspend;
pub mod recover;
pub mod restore;
pub mod card;
pub mod audit;
pub mod inside;
pub mod backup;
