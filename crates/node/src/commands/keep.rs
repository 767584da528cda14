//! `freehold-node keep`: the process that keeps a check's program. The agent starts it; nobody else has use for it.

use clap::Args;
use member::apply::keeper;
use terminal::failure::{During as _, Failure};

#[derive(Debug, Args)]
#[command(
    after_help = "The agent starts it for each check that is a command: standard input is a socket to it. It runs the program, says how it
ended, and ends with all that the program began."
)]
pub struct Keep {}

impl Keep {
    /// Alone in its process: there is no runtime yet.
    pub fn run(&self) -> Result<(), Failure> {
        keeper::run().during("could not keep the program of a check")
    }
}
