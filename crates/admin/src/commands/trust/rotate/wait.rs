//! Waits until every node has a version, with a bar that names who is missing.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use ground::clock;
use ground::plain::plain;
use identity::bundle::InDomain;
use identity::time::Seconds;
use node::commands::run::stop_signal;
use operate::session::OperateError;
use operate::trust::adopted;
use operate::trust::adopted::bounded;
use operate::trust::rotate::{Awaited, HowFar};
use terminal::failure::Failure;

use super::Run;
use crate::home::{During, failure};

/// So long until the next look.
const LOOK: Duration = Duration::from_millis(500);
/// So often in a row the gateway may be out of reach.
const FAILURES: u32 = 30;

/// Until every member goes by the version; who does not when the wait is over, and why.
pub async fn adopted<T: InDomain>(run: &mut Run<'_>, version: u64) -> Result<Vec<String>, Failure> {
    let awaited = Awaited::adoption::<T>(&mut run.session, version).await.during(&run.doing)?;
    until(run, &awaited).await
}

/// Until every certificate of a node leads to the root of the version.
pub async fn reissued<T: InDomain>(run: &mut Run<'_>, version: u64) -> Result<Vec<String>, Failure> {
    let awaited = Awaited::reissue::<T>(&mut run.session, version).await.during(&run.doing)?;
    let Some(awaited) = awaited else { return Ok(Vec::new()) };
    let all = if run.wish.anyway.is_empty() { "every node has it" } else { "every other node has it" };
    let waiting = if run.waits() { "; waiting until their certificates lead to its root, too" } else { "" };
    run.say(&format!("{all}{waiting}"));
    until(run, &awaited).await
}

/// Looks again and again, until nobody is left or the wait is over.
async fn until(run: &mut Run<'_>, awaited: &Awaited) -> Result<Vec<String>, Failure> {
    if !run.is_served() {
        run.say("no gateway serves here, so nobody hears of it now: freehold serve");
    }
    let over = clock::now() + if run.waits() { run.wish.wait } else { Seconds(0) };
    let left = run.wish.left_behind();
    let mut stances = adopted::stances(&mut run.session).await.during(&run.doing)?;
    let (mut bar, mut failures) = (Bar::new(run.common.json), 0);
    // Whoever interrupts the wait is told where it stands, as if it were over.
    let mut stop = stop_signal().during(&run.doing)?;
    loop {
        let HowFar { done, rest } = awaited.how_far(&stances, &left, clock::now());
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
