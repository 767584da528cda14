//! Facts laid out for people: tables, and a yes or no.

use std::io::{IsTerminal as _, Write as _};

use node::report::Failure;

/// Columns as wide as they need to be.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count().min(*width))))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut header.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

pub fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Where to look for what is there, when something is not.
pub fn see(what: &str) -> &'static str {
    match what {
        "node" => "see which there are: freehold node list",
        "invite" => "see which there are: freehold invite list",
        "waiver" => "see which there are: freehold invite waivers",
        "gateway" | "mandate of" => "see which there are: freehold gateway list",
        "signer" => "see which there are: freehold signer list",
        _ => "see what there was: freehold audit",
    }
}

/// Asks; without a terminal only `--yes` is a yes.
pub fn confirm(yes: bool, doing: &str, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(doing, "this needs a yes, and there is no terminal to ask at").hint("add --yes"));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "yes") { Ok(()) } else { Err(Failure::failed(doing, "you said no")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(table(&["X", "Y"], &rows), "X    Y\na    bb\nccc  d");
    }
}
