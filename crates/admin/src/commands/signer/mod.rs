//! `freehold signer list | new | add | replace | remove | threshold | settle | hand-over`.

pub mod unlock;
pub mod token;
mod over;
mod shown;
mod inbox;
pub mod sign;
pub mod send;
mod own;
pub mod recover;
mod list;
mod new;
mod change;
mod settle;
mod hand_over;

use clap::Subcommand;
use terminal::failure::Failure;

use change::add::Add;
use change::remove::Remove;
use change::replace::Replace;
use change::threshold::ThresholdTo;
use hand_over::HandOver;
use list::List;
use new::New;
use settle::Settle;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum SignerCommand {
    /// List the signers, and the sets that came before
    List(List),
    /// Make a signer's key in this home, from the org's card
    New(New),
    /// Add a signer
    Add(Add),
    /// Put a new key in the place of a signer's
    Replace(Replace),
    /// Remove a signer; the last one stays
    Remove(Remove),
    /// Change how many must agree
    Threshold(ThresholdTo),
    /// Make one of several sets that claim one place
    Settle(Settle),
    /// Move a signer's key to a home of its own
    HandOver(HandOver),
}

impl SignerCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::New(new) => new.run(common),
            Self::Add(add) => add.run(common).await,
            Self::Replace(replace) => replace.run(common).await,
            Self::Remove(remove) => remove.run(common).await,
            Self::Threshold(threshold) => threshold.run(common).await,
            Self::Settle(settle) => Box::pin(settle.run(common)).await,
            Self::HandOver(hand_over) => hand_over.run(common),
        }
    }
}
