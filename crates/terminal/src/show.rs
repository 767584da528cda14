//! Facts on standard output: as JSON, or as a person reads them.

use ground::plain::plain;
use serde::Serialize;

use crate::facts;
use crate::screen::painted;

/// Prints a value: as JSON, or as a person reads it.
pub fn show<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) {
    use std::io::Write as _;
    let told = if json { facts::lines(value) } else { painted(&plain(&text())) };
    // Whoever reads may have seen enough: `freehold node list | head`.
    let _ = writeln!(std::io::stdout(), "{told}");
}
