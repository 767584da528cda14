//! What an operator does, as a library: sign, and hand over what was signed. It cannot found.

pub mod folder;
pub mod keys;
pub mod desk;
pub mod remote;
pub mod session;
pub mod head;
pub mod timely;
pub mod invite;
pub mod node;
pub mod replace;
pub mod audit;
