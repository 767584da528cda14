//! A yes or no, from whoever sits there.

use std::io::{IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Asks; without a terminal only `--yes` is a yes.
pub fn confirm(yes: bool, doing: &str, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let why = format!("this needs a yes, and there is no terminal to ask at: {question}");
        return Err(Failure::usage(doing, why).hint("add --yes"));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "yes") { Ok(()) } else { Err(Failure::failed(doing, "you said no")) }
}
