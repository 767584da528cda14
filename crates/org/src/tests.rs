//! The laws of the ledger, and every refusal of a joiner, held against real signatures.

mod world;
mod laws;
mod hostile;
mod belonging;
mod forks;
mod taking_back;
mod releasing;
mod trusting;
mod governing;
mod suspending;
mod joining;
mod kinds;
mod replacing;
mod granting;
mod approving;
mod spending;
mod parsing;
mod mandating;
mod meeting;
mod looking_back;
