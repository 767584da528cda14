//! What a replica says of the org, held against real signatures.

mod world;
mod laws;
mod writing;
mod join;
mod replacing;
mod suspending;
mod mandating;
mod trusting;
mod releasing;
mod looking_back;
mod meeting;
mod parsing;
mod governing;
mod settling;
mod taking_back;
mod attacks;
