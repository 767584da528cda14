//! `freehold signer threshold`: how many must agree.

use clap::Args;
use operate::signer::Change;
use terminal::failure::Failure;

use super::{Terms, change};
use crate::home::Common;

#[derive(Debug, Args)]
pub struct ThresholdTo {
    /// How many must agree from then on
    k: usize,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl ThresholdTo {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let terms = Terms { threshold: Some(self.k), yes: self.yes };
        change(common, "could not change the threshold", &Change::Keep, &terms).await
    }
}
