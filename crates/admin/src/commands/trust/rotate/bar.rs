//! A bar that says how many nodes have a version, and names who is missing.

use std::io::{IsTerminal as _, Write as _};

use ground::plain::plain;
use operate::trust::adopted::bounded;

/// One line that is drawn again on a terminal; elsewhere a line for each change.
pub(super) struct Bar {
    quiet: bool,
    live: bool,
    done: String,
    told: Vec<String>,
    shown: bool,
}

impl Bar {
    pub(super) fn new(quiet: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        Self { quiet, live, done: String::new(), told: Vec::new(), shown: false }
    }

    pub(super) fn show(&mut self, done: &str, rest: &[String]) {
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
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.live && self.shown {
            eprintln!();
        }
    }
}
