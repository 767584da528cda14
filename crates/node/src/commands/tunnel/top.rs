//! `freehold-node top`: who calls what, as it happens.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use ground::clock;
use member::agent::socket::Remote;
use member::agent::tunnel::view::TunnelView;
use terminal::facts;
use terminal::failure::Failure;
use terminal::screen::Live;
use terminal::show::show;
use terminal::table::table;
use tunnel::control::view::{ServiceCounts, View};

use crate::commands::roots::ScopeOptions;
use crate::commands::tunnel::streams::{caller, left_out, peer, refusals, size};

const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node top                 until Ctrl-C
  freehold-node top --once          after a second, since a rate takes two looks
  freehold-node top --json | jq     a line each second; `sent` and `received` count since the tunnel began")]
pub struct Top {
    /// Show it once, and end
    #[arg(long)]
    once: bool,
}

impl Top {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not watch the tunnel";
        let scope = common.scope(doing)?;
        let down = || Failure::failed(doing, "the agent does not run").hint(common.start(&scope));
        let agent = Remote::find(&scope).await.ok_or_else(down)?;
        let mut screen = Live::new().filter(|_| std::io::stdout().is_terminal() && !common.json && !self.once);
        let once = self.once || screen.is_none() && !common.json;
        let mut before = None;
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            let status = agent.status().await.ok_or_else(down)?;
            // There is no rate yet.
            if once && !common.json && before.is_none() && status.tunnel.now.is_some() {
                before = status.tunnel.now;
                continue;
            }
            if common.json && !once {
                let line = facts::line(&status.tunnel);
                // Whoever reads may have gone away.
                if writeln!(std::io::stdout(), "{line}").is_err() {
                    return Ok(());
                }
            } else {
                let who = format!("{} of {}", status.name, status.org);
                let words = || in_words(&who, &status.tunnel, before.as_ref());
                match &mut screen {
                    Some(screen) => screen.draw(&words().lines().map(str::to_owned).collect::<Vec<_>>()),
                    None => show(common.json, &status.tunnel, words),
                }
            }
            if once {
                return Ok(());
            }
            before = status.tunnel.now;
        }
    }
}

fn in_words(who: &str, tunnel: &TunnelView, before: Option<&View>) -> String {
    let Some(now) = &tunnel.now else {
        let why = tunnel.problem.clone().unwrap_or_else(|| "there is nothing to carry".to_owned());
        return format!("{who}: no tunnel runs: {why}");
    };
    let mut lines = vec![format!("{who}, {}, head {}", clock::now(), now.head)];
    lines.extend(now.peers.iter().map(peer));
    lines.extend(now.callers.iter().map(caller));
    let mut rows: Vec<(&ServiceCounts, Option<(u64, u64)>)> =
        now.services.iter().map(|count| (count, before.map(|before| rates(count, before)))).collect();
    rows.sort_by_key(|(count, rates)| {
        std::cmp::Reverse((rates.map(|(sent, received)| sent + received), count.open, count.streams))
    });
    let told = |rate: Option<u64>| rate.map_or_else(|| "-".to_owned(), size);
    let row = |(count, rates): &(&ServiceCounts, Option<(u64, u64)>)| {
        vec![
            count.service.to_string(),
            if count.incoming { "in" } else { "out" }.to_owned(),
            told(rates.map(|(sent, _)| sent)),
            told(rates.map(|(_, received)| received)),
            count.open.to_string(),
            count.principal.to_string(),
            refusals(count).to_string(),
            count.streams.to_string(),
        ]
    };
    let header = ["SERVICE", "WAY", "SENT/s", "RECEIVED/s", "OPEN", "PRINCIPAL", "REFUSED", "STREAMS"];
    lines.extend(table(&header, &rows.iter().map(row).collect::<Vec<_>>()).lines().map(str::to_owned));
    lines.extend(left_out(now));
    lines.join("\n")
}

/// What was carried since the last look.
fn rates(count: &ServiceCounts, before: &View) -> (u64, u64) {
    let same = |other: &&ServiceCounts| {
        (&other.service, &other.principal, other.incoming) == (&count.service, &count.principal, count.incoming)
    };
    let last = before.services.iter().find(same);
    let (sent, received) = last.map_or((0, 0), |last| (last.sent, last.received));
    // A process that began anew counts anew.
    (count.sent.saturating_sub(sent), count.received.saturating_sub(received))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn view(sent: u64, received: u64) -> View {
        let (service, principal) = ("wiki".parse().unwrap(), "spiffe://harbor/user/ann".parse().unwrap());
        let refused = BTreeMap::new();
        let count = ServiceCounts { service, principal, incoming: false, open: 1, streams: 3, sent, received, refused };
        View { services: vec![count], ..View::default() }
    }

    #[test]
    fn what_was_carried_before_the_first_look_is_no_rate() {
        let (now, before) = (view(5 << 20, 7 << 20), view(5 << 20, (7 << 20) - 1536));
        let row = |before: Option<&View>| {
            let told =
                in_words("alpha of harbor", &TunnelView { now: Some(now.clone()), ..TunnelView::default() }, before);
            told.lines().last().unwrap().split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row(None), ["-", "-", "1", "spiffe://harbor/user/ann", "0", "3"]);
        assert_eq!(row(Some(&before)), ["0", "B", "1.5", "KiB", "1", "spiffe://harbor/user/ann", "0", "3"]);
    }
}
