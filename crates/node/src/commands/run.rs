//! `freehold-node run`: the agent, until SIGTERM.

use std::sync::Arc;

use clap::Args;
use identity::time::Seconds;
use member::agent::metrics::{self, Tally};
use member::agent::{self, AgentError, AgentOptions};
use member::ask::source::Source;
use member::store::scope::ScopeError;
use terminal::failure::{During, Exit, Failure};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use wire::http::metrics::port::{self, NoPort, Shown};

use crate::commands::join::go_on;
use crate::commands::roots::ScopeOptions;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node run                             renews, checks in every minute, answers `freehold-node status`
  freehold-node run --metrics 127.0.0.1:7445    and shows numbers to Prometheus")]
pub struct Run {
    /// How often to check in
    #[arg(long, value_name = "SPAN", env = "FREEHOLD_EVERY", default_value = "60s")]
    every: Seconds,
    /// Read a static tree this often instead of asking gateways: a folder, or http://HOST:PORT/PATH. Its SVID is not
    /// renewed then
    #[arg(long, value_name = "DIR|URL", env = "FREEHOLD_FROM")]
    from: Option<Source>,
    #[command(flatten)]
    metrics: Metrics,
}

/// Where the agent shows its numbers.
#[derive(Debug, Args)]
struct Metrics {
    /// Show metrics for Prometheus at http://ADDR:PORT/metrics, or `off`
    #[arg(long, value_name = "ADDR:PORT", env = "FREEHOLD_METRICS", default_value = "off")]
    metrics: Shown,
    /// Let the metrics be on an address that other machines can reach
    #[arg(long, env = "FREEHOLD_METRICS_OPEN")]
    metrics_open: bool,
}

impl Metrics {
    /// Opens the port, and answers there until the process ends.
    async fn show(self, tally: Arc<Tally>) -> Result<(), NoPort> {
        if let Some(listener) = port::listen(self.metrics.checked(self.metrics_open)?).await? {
            tokio::spawn(port::answer(listener, move || std::future::ready(metrics::page(&tally))));
        }
        Ok(())
    }
}

impl Run {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "the agent stopped";
        let scope = common.scope("could not run the agent")?;
        let mut stop = stop_signal().during(doing)?;
        if scope.node().during(doing)?.is_none()
            && let Some((_, code)) = scope.waiting().during(doing)?
        {
            tokio::select! {
                joined = go_on(common, &scope, &code) => joined?,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
        }
        let tally = Arc::<Tally>::default();
        let shown = self.metrics.show(Arc::clone(&tally)).await;
        shown.map_err(|why| {
            let exit = if matches!(why, NoPort::Exposed(_)) { Exit::Usage } else { Exit::Failed };
            Failure::new("could not run the agent", &why).exit(exit).hint(why.hint())
        })?;
        let from = self.from.map(Source::absolute).transpose().during(doing)?;
        let options =
            AgentOptions { check_in_every: Seconds(self.every.0.max(1)), from, tally, ..AgentOptions::default() };
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
                AgentError::Scope(_) | AgentError::Apply(_) | AgentError::NoRandomness(_) => failure,
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
