//! What makes the programs pleasant to run: configuration, numbers to watch, a doctor, completions, manual pages.

mod pages;

use std::process::{Command, Output, Stdio};

use trials::place::output;

/// A program of this machine, to its end. Tests need it: `scripts/test` installs it.
pub fn run(program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    output(command)
}
