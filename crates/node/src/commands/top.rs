//! `freehold-node top`: who calls what, as it happens.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use ground::clock;
use tunnel::orders::{Count, View};

use crate::agent::socket::Remote;
use crate::agent::status::Status;
use crate::commands::roots::Common;
use crate::commands::streams::{caller, left_out, peer, refusals, size};
use crate::report::{Failure, show};

const EVERY: Duration = Duration::from_secs(1);
/// Home, and nothing below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node top                 until Ctrl-C
  freehold-node top --once
  freehold-node top --json | jq     a line each second")]
pub struct Top {
    /// Show it once, and end
    #[arg(long)]
    once: bool,
}

impl Top {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not watch the tunnel";
        let scope = common.scope(doing)?;
        let down = || Failure::failed(doing, "the agent does not run").hint(common.start(&scope));
        let agent = Remote::find(&scope).await.ok_or_else(down)?;
        let on_screen = std::io::stdout().is_terminal() && !common.json;
        let once = self.once || !on_screen && !common.json;
        let mut before = None;
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            let status = agent.status().await.ok_or_else(down)?;
            if common.json && !once {
                let line = serde_json::to_string(&status.tunnel).map_err(|why| Failure::new(doing, &why))?;
                // Whoever reads may have gone away.
                if writeln!(std::io::stdout(), "{line}").is_err() {
                    return Ok(());
                }
            } else {
                if on_screen && !once {
                    // Whoever reads may have gone away.
                    let _ = write!(std::io::stdout(), "{CLEAR}");
                }
                show(common.json, &status.tunnel, || in_words(&status, before.as_ref()));
            }
            if once {
                return Ok(());
            }
            before = status.tunnel.now;
        }
    }
}

fn in_words(status: &Status, before: Option<&View>) -> String {
    let Some(now) = &status.tunnel.now else {
        let why = status.tunnel.problem.clone().unwrap_or_else(|| "there is nothing to carry".to_owned());
        return format!("{} of {}: no tunnel runs: {why}", status.name, status.org);
    };
    let mut lines = vec![format!("{} of {}, {}, head {}", status.name, status.org, clock::now(), now.head)];
    lines.extend(now.peers.iter().map(peer));
    lines.extend(now.callers.iter().map(caller));
    lines.push(format!(
        "{:<3} {:<24} {:<40} {:>6} {:>9} {:>12} {:>12} {:>8}",
        "", "SERVICE", "PRINCIPAL", "OPEN", "STREAMS", "SENT/s", "RECEIVED/s", "REFUSED"
    ));
    let mut rows: Vec<(&Count, u64, u64)> = now.services.iter().map(|count| rates(count, before)).collect();
    rows.sort_by_key(|(count, sent, received)| std::cmp::Reverse((sent + received, count.open, count.streams)));
    lines.extend(rows.iter().map(|(count, sent, received)| {
        let way = if count.incoming { "in" } else { "out" };
        format!(
            "{way:<3} {:<24} {:<40} {:>6} {:>9} {:>12} {:>12} {:>8}",
            count.service.to_string(),
            count.principal.to_string(),
            count.open,
            count.streams,
            size(*sent),
            size(*received),
            refusals(count)
        )
    }));
    lines.extend(left_out(now));
    lines.join("\n")
}

/// What was carried since the last look; all of it at the first.
fn rates<'a>(count: &'a Count, before: Option<&View>) -> (&'a Count, u64, u64) {
    let same = |other: &&Count| {
        (&other.service, &other.principal, other.incoming) == (&count.service, &count.principal, count.incoming)
    };
    let last = before.and_then(|view| view.services.iter().find(same));
    let (sent, received) = last.map_or((0, 0), |last| (last.sent, last.received));
    // A process that began anew counts anew.
    (count, count.sent.saturating_sub(sent), count.received.saturating_sub(received))
}
