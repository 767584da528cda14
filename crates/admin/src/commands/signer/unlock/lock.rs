//! `freehold lock`: what `unlock` opened is forgotten.

use clap::Args;
use operate::key::agent::client;
use operate::key::agent::place::AgentPlace;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use super::{WHERE, failure};
use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold lock")]
pub struct LockCommand {}

#[derive(Serialize)]
struct LockTold {
    locked: bool,
    was_unlocked: bool,
}

impl LockCommand {
    pub fn run(common: &Common) -> Result<(), Failure> {
        let doing = "could not lock";
        let place = AgentPlace::of_user().map_err(|why| Failure::new(doing, &why).hint(WHERE))?;
        let was_unlocked = client::lock(&place)
            .map_err(|why| failure(doing, &why).hint("end the agent by its pid: freehold unlock --status; kill PID"))?;
        show(common.json, &LockTold { locked: true, was_unlocked }, || {
            if was_unlocked { "locked: the keys are forgotten" } else { "locked: no key was held" }.to_owned()
        });
        Ok(())
    }
}
