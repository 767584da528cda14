//! What we seal in public formats: programs that others made open it, and we open what they made.

mod boxes;
mod backups;
mod bundles;

use std::io::Write as _;
use std::process::{Command, Stdio};

use trials::place::stdout;

/// What a person types who is asked by `age`, which asks at a terminal only.
pub fn typed(line: &str, words: &str) {
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "`{line}`: {}", stdout(&done));
}
