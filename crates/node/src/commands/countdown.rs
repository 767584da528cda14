//! A deadline that counts down, for whoever waits at a terminal; elsewhere, a line whenever something changes.

use std::io::{IsTerminal as _, Write as _};

use ground::clock;
use ground::plain::plain;
use member::apply::view::TrialView;

#[derive(Debug, Default)]
pub(crate) struct Countdown {
    last: Option<Vec<String>>,
}

impl Countdown {
    pub(crate) fn show(&mut self, trial: &TrialView) {
        let left = trial.deadline.since(clock::now());
        let waits = trial.waits_for.join("; ");
        let waits = if waits.is_empty() { "a moment".to_owned() } else { waits };
        let line = plain(&format!("on trial: goes back in {left} unless confirmed; waits for {waits}"));
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let _ = write!(out, "\r{line}\x1b[K");
            let _ = out.flush();
        } else if self.last.as_ref() != Some(&trial.waits_for) {
            let _ = writeln!(out, "{line}");
        }
        self.last = Some(trial.waits_for.clone());
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        if self.last.is_some() && std::io::stderr().is_terminal() {
            let _ = writeln!(std::io::stderr());
        }
    }
}
