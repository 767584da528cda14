//! A deadline that counts down, for whoever waits at a terminal; elsewhere, a line whenever something changes.

use ground::clock;
use ground::plain::plain;
use member::apply::view::TrialView;
use terminal::screen::Live;

#[derive(Debug)]
pub(crate) struct Countdown {
    live: Option<Live>,
    last: Option<Vec<String>>,
}

impl Default for Countdown {
    fn default() -> Self {
        Self { live: Live::new(), last: None }
    }
}

impl Countdown {
    pub(crate) fn show(&mut self, trial: &TrialView) {
        let left = trial.deadline.since(clock::now());
        let waits = trial.waits_for.join("; ");
        let waits = if waits.is_empty() { "a moment".to_owned() } else { waits };
        let line = format!("on trial: goes back in {left} unless confirmed; waits for {waits}");
        if let Some(live) = &mut self.live {
            live.draw(&[line]);
        } else if self.last.as_ref() != Some(&trial.waits_for) {
            eprintln!("{}", plain(&line));
        }
        self.last = Some(trial.waits_for.clone());
    }
}
