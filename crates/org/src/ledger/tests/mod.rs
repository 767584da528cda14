//! A hostile world: the ledger's rules held against thieves, by scripted scenes and by random histories.

pub(crate) mod world;
pub(crate) mod drafting;
mod replicas;
mod scenes_signers;
mod scenes_freezes;
mod scenes_heads;
mod scenes_lines;
mod scenes_around;
mod scenes_entries;
mod scenes_attacks;
mod scenes_disk;
mod histories;
