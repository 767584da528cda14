//! What a replica says of the org, held against real signatures.

mod world;
mod laws;
mod chain;
mod join;
mod replace;
mod suspend;
mod mandate;
mod trust;
mod release;
mod as_of;
mod peer;
mod bytes;
mod signers;
mod rivals;
mod revoke;
mod attacks;
