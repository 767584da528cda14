//! Facts on standard output: as JSON, or as a person reads them.

use ground::plain::plain;
use serde::Serialize;

use crate::facts;
use crate::screen::painted;
use crate::typed;

/// Prints a value: as JSON, or as a person reads it.
pub fn show<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) {
    use std::io::Write as _;
    let told = if json { facts::lines(value) } else { painted(&in_words(&text())) };
    // Whoever reads may have seen enough: `freehold node list | head`.
    let _ = writeln!(std::io::stdout(), "{told}");
}

/// Says something beside what was asked for, on standard error.
pub fn say_beside(text: &str) {
    eprintln!("{}", in_words(text));
}

/// As a person reads it; commands in it name what was named on the line that was typed.
pub fn in_words(text: &str) -> String {
    typed::repeated(&plain(text))
}
