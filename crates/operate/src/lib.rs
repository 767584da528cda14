//! What an operator does, as a library: sign, and hand over what was signed. It cannot found.

// The folder, and the keys at hand.
pub mod folder;
pub mod token;
pub mod agent;
pub mod keys;

// What waits for others, and what it would do.
pub mod handed;
pub mod listing;
pub mod pending;
pub mod describe;

// Where it is handed in.
pub mod desk;
pub mod remote;
pub mod distrust;
pub mod refused;
pub mod unturned;
pub mod session;
pub mod replica;
pub mod alone;
pub mod bundles;

// Members' maps that this home has.
pub mod kept;
pub mod roll;
pub mod weigh;

// What is decided: a file for each.
pub mod head;
pub mod around;
pub mod timely;
pub mod files;
pub mod release;
pub mod line;
pub mod trust;
pub mod invite;
pub mod node;
pub mod approve;
pub mod mandate;
pub mod roots;
pub mod gateway;
pub mod replace;
pub mod signers;
pub mod settle;
pub mod over;
pub mod suspend;
pub mod waive;
pub mod recover;
pub mod principal;
pub mod publish;
pub mod adoption;
pub mod turn;
pub mod papers;
pub mod reopen;
pub mod rotate;
pub mod breaks;
pub mod retire;

// What is declared.
pub mod fleet;

// What is looked at and kept.
pub mod card;
pub mod landing;
pub mod beside;
pub mod audit;
pub mod hindsight;
pub mod status;
pub mod inside;
pub mod backup;
