//! `freehold fleet init` and `freehold fleet schema`.

pub mod check;
pub mod access;
pub mod compile;
pub mod plan;
pub mod publish;
pub mod rollback;
mod init;

use std::io::Write as _;

use clap::{Args, Subcommand};
use manifest::source::schema;
use terminal::failure::Failure;

use self::init::Init;
use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Write a commented example fleet: the files are the documentation
    Init(Init),
    /// Print the JSON Schema of a fleet, for editors
    Schema(Schema),
}

impl FleetCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Init(init) => init.run(common),
            Self::Schema(Schema {}) => {
                // A document, not facts: as it is in the folder that `fleet init` makes.
                let _ = writeln!(std::io::stdout(), "{:#}", schema());
                Ok(())
            }
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold fleet schema > .schema/fleet.json

A first line `# yaml-language-server: $schema=.schema/fleet.json` in a file makes many editors use it.")]
pub struct Schema {}
