//! `freehold-node run`: the agent, until SIGTERM.

use clap::Args;
use identity::time::Seconds;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::agent::{self, AgentError, Options};
use crate::commands::roots::Common;
use crate::report::{Exit, Failure};
use crate::store::scope::ScopeError;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node run                 renews, checks in every minute, answers `freehold-node status`")]
pub struct Run {
    /// How often to check in
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    every: Seconds,
}

impl Run {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "the agent stopped";
        let scope = common.scope("could not run the agent")?;
        let stop = stop_signal().map_err(|why| Failure::new(doing, &why))?;
        let options = Options { check_in_every: Seconds(self.every.0.max(1)), ..Options::default() };
        agent::run(scope, options, stop).await.map_err(|why| {
            let failure = Failure::new(doing, &why);
            match why {
                AgentError::Revoked => failure
                    .exit(Exit::Refused)
                    .hint("to be of use again it joins as a new machine: freehold-node leave --local, then freehold-node join"),
                AgentError::NotJoined | AgentError::Left => failure.hint("join first: freehold-node join"),
                AgentError::AlreadyRunning => failure.hint("look at it: freehold-node status"),
                AgentError::Scope(ScopeError::Damaged { .. } | ScopeError::DamagedKey { .. }) => failure.hint(
                    "look at the disk; then an operator runs freehold node replace NAME, and this machine freehold-node leave \
                     --local and the line that it prints",
                ),
                AgentError::Scope(_) | AgentError::NoRandomness(_) => failure,
            }
        })
    }
}

/// Becomes true at SIGTERM or Ctrl-C.
pub fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = sender.send(true);
        // Kept: a dropped sender would look like a stop to nobody, and a second signal ends the process at once.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(receiver)
}
