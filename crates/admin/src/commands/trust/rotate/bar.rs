//! How many nodes have a version, and who is missing.

use ground::plain::plain;
use operate::trust::adopted::bounded;
use terminal::screen::Live;

/// So many of those who are missing are drawn, and how many more there are.
const NAMED: usize = 4;

/// A few lines that are drawn again on a terminal; elsewhere lines for each change.
pub(super) struct Bar {
    quiet: bool,
    live: Option<Live>,
    done: String,
    told: Vec<String>,
}

impl Bar {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, live: Live::new(), done: String::new(), told: Vec::new() }
    }

    pub(super) fn show(&mut self, done: &str, rest: &[String]) {
        if self.quiet {
            return;
        }
        let lines = |most| {
            let rest = bounded(rest).into_iter().take(most).map(|line| format!("  {line}"));
            std::iter::once(done.to_owned()).chain(rest).collect::<Vec<_>>()
        };
        if let Some(live) = &mut self.live {
            live.draw(&lines(NAMED));
        } else if self.done != done || self.told != rest {
            eprintln!("{}", plain(&lines(usize::MAX).join("\n")));
            (self.done, self.told) = (done.to_owned(), rest.to_vec());
        }
    }
}
