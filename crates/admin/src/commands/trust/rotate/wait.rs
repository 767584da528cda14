//! Waits until every node has a version, with a bar that names who is missing.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use ground::clock;
use ground::plain::plain;
use identity::bundle::{Domain, InDomain};
use identity::id::Fingerprint;
use identity::principal::NodeName;
use identity::time::Seconds;
use node::commands::run::stop_signal;
use operate::session::OperateError;
use operate::trust::adopted;
use operate::trust::adopted::{Stances, bounded};
use operate::trust::versions;
use operate::trust::versions::Versions;
use terminal::failure::Failure;

use super::Run;
use crate::home::{During, failure};

/// So long until the next look.
const LOOK: Duration = Duration::from_millis(500);
/// So often in a row the gateway may be out of reach.
const FAILURES: u32 = 30;

/// Until every member goes by the version; who does not when the wait is over, and why.
pub async fn adopted<T: InDomain>(run: &mut Run<'_>, version: u64) -> Result<Vec<String>, Failure> {
    let versions = versions::all::<T>(&mut run.session).await.and_then(Versions::trusted).during(&run.doing)?;
    let found = versions.iter().find(|it| it.line.version == version);
    let published_at = found.map_or_else(clock::now, |it| it.bundle.body().published_at);
    let left: BTreeSet<NodeName> = run.wish.anyway.iter().cloned().collect();
    until(run, |stances| {
        let adoption = stances.adoption(T::DOMAIN, version, published_at, clock::now());
        let bar = adoption.bar();
        (bar, adoption.without(&left).rest())
    })
    .await
}

/// Until every SVID leads to the roots of the version. Endpoint certificates are the gateways' own business.
pub async fn reissued<T: InDomain>(run: &mut Run<'_>, version: u64) -> Result<Vec<String>, Failure> {
    if T::DOMAIN == Domain::Endpoint {
        return Ok(Vec::new());
    }
    let versions = versions::all::<T>(&mut run.session).await.and_then(Versions::trusted).during(&run.doing)?;
    let found = versions.iter().find(|it| it.line.version == version);
    let roots: BTreeSet<Fingerprint> = found.into_iter().flat_map(|it| it.bundle.fingerprints()).collect();
    let left: BTreeSet<NodeName> = run.wish.anyway.iter().cloned().collect();
    let all = if left.is_empty() { "every node has it" } else { "every other node has it" };
    let waiting = if run.waits() { "; waiting until their certificates lead to its root, too" } else { "" };
    run.say(&format!("{all}{waiting}"));
    until(run, |stances| {
        let (all, before) = stances.before(&roots, clock::now());
        let bar = format!("{} of {all}", all.saturating_sub(before.len()));
        let rest = before.into_iter().filter(|it| !left.contains(&it.name));
        (bar, rest.map(|it| format!("`{}`: {}", it.name, it.why)).collect())
    })
    .await
}

/// Looks again and again, until nobody is left or the wait is over.
async fn until(run: &mut Run<'_>, look: impl Fn(&Stances) -> (String, Vec<String>)) -> Result<Vec<String>, Failure> {
    if !run.is_served() {
        run.say("no gateway serves here, so nobody hears of it now: freehold serve");
    }
    let over = clock::now() + if run.waits() { run.wish.wait } else { Seconds(0) };
    let mut stances = adopted::stances(&mut run.session).await.during(&run.doing)?;
    let (mut bar, mut failures) = (Bar::new(run.common.json), 0);
    // Whoever interrupts the wait is told where it stands, as if it were over.
    let mut stop = stop_signal().during(&run.doing)?;
    loop {
        let (done, rest) = look(&stances);
        let ended = rest.is_empty() || clock::now() >= over || *stop.borrow();
        // Whoever is missing at the end is named by the error, once.
        bar.show(&done, if ended { &[] } else { &rest });
        if ended {
            bar.end();
            return Ok(rest);
        }
        if tokio::time::timeout(LOOK, stop.changed()).await.is_ok() {
            continue;
        }
        match adopted::hear(&mut run.session, &mut stances).await {
            Ok(()) => failures = 0,
            // What is published stays so, whether this connection holds or not.
            Err(OperateError::Desk(_)) if failures < FAILURES => failures += 1,
            Err(why) => {
                bar.end();
                return Err(failure(&run.doing, &why));
            }
        }
    }
}

/// One line that is drawn again on a terminal; elsewhere a line for each change.
struct Bar {
    quiet: bool,
    live: bool,
    done: String,
    told: Vec<String>,
    shown: bool,
}

impl Bar {
    fn new(quiet: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        Self { quiet, live, done: String::new(), told: Vec::new(), shown: false }
    }

    fn show(&mut self, done: &str, rest: &[String]) {
        if self.quiet {
            return;
        }
        if self.live {
            let words: Vec<String> = bounded(rest).into_iter().take(3).collect();
            let line: String = plain(&format!("{done}  {}", words.join("; "))).chars().take(110).collect();
            eprint!("\r\u{1b}[K{line}");
            let _ = std::io::stderr().flush();
            self.shown = true;
        } else if self.done != done || self.told != rest {
            eprintln!("{}", plain(done));
            for line in bounded(rest) {
                eprintln!("  {}", plain(&line));
            }
            (self.done, self.told) = (done.to_owned(), rest.to_vec());
        }
    }

    fn end(&self) {
        if self.live && self.shown {
            eprintln!();
        }
    }
}
