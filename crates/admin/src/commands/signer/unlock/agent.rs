//! `freehold agent`: what `unlock` starts, and holds opened keys.

use std::io::Write as _;

use clap::Args;
use operate::key::agent::client::{READY, RUNS};
use operate::key::agent::holder::{self, HolderError};
use operate::key::agent::place::AgentPlace;
use terminal::failure::Failure;

use crate::home::During;

#[derive(Debug, Args)]
pub struct AgentCommand {}

impl AgentCommand {
    pub async fn run(self) -> Result<(), Failure> {
        let doing = "could not hold keys";
        // Not of the terminal's session: it ends with its time, not with the terminal.
        let _ = rustix::process::setsid();
        let say = |word: &str| {
            let _ = writeln!(std::io::stdout(), "{word}");
        };
        let place = AgentPlace::of_user().during(doing)?;
        holder::serve(&place, || say(READY)).await.map_err(|why| {
            say(&match &why {
                HolderError::AlreadyRuns => RUNS.to_owned(),
                other => other.to_string(),
            });
            Failure::new(doing, &why)
        })
    }
}
