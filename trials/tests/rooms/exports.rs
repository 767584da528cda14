//! Nothing is exported that nobody uses, and rooms have few doors.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{crates, libraries};
use crate::layout::{root, sources};

/// How many things of a room have a door to other rooms, at most. Gateways and commands both stand on `member`.
const DOORS: [(&str, usize); 5] = [("ledger", 80), ("member", 110), ("terminal", 80), ("gateway", 80), ("node", 80)];

/// Items at the outer level of a file: what kind, and what they are called.
fn public_items(text: &str) -> Vec<String> {
    let kinds = ["fn", "struct", "enum", "trait", "type", "static", "const"];
    let item = |line: &str| {
        let mut words = line.strip_prefix("pub ")?.split_whitespace().peekable();
        while words.next_if(|word| ["async", "unsafe"].contains(word)).is_some() {}
        let mut kind = words.next()?;
        if kind == "const" && words.peek() == Some(&"fn") {
            kind = words.next()?;
        }
        let name = words.next()?;
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        kinds.contains(&kind).then_some(name)
    };
    text.lines().filter_map(item).collect()
}

/// Each word of the sources, and whose: a crate's library, or, with no name, anybody else's.
fn words() -> BTreeMap<String, BTreeSet<String>> {
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let libraries = crates();
    for file in ["crates", "trials", "fuzz"].iter().flat_map(|folder| sources(&root().join(folder))) {
        let within = |at: &&std::path::PathBuf| file.starts_with(at.join("src")) && file != at.join("src/main.rs");
        let owner = libraries.iter().find(within).map(|at| at.file_name().unwrap().to_string_lossy().into_owned());
        let text = std::fs::read_to_string(&file).unwrap();
        let own: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for word in own {
            words.entry(word.to_owned()).or_default().insert(owner.clone().unwrap_or_default());
        }
    }
    words
}

#[test]
fn no_crate_exports_what_nobody_uses() {
    let (mut idle, words) = (Vec::new(), words());
    for (name, library) in libraries() {
        let outside = |word: &str| words.get(word).is_some_and(|owners| owners.iter().any(|owner| *owner != name));
        // Whoever gets a thing may never name it.
        let shapes: String =
            library.all().iter().flat_map(|module| module.text.lines()).filter(|line| shapes(line)).collect();
        for module in library.open() {
            for item in public_items(&module.text) {
                let passed_on = shapes.matches(&item).count() > 1;
                if !outside(&item) && !passed_on {
                    idle.push(format!("{name}::{}::{item}", module.path.join("::")));
                }
            }
        }
        for module in library.open().into_iter().filter(|module| !module.path.is_empty()) {
            if !outside(&module.name) {
                idle.push(format!("{name}::{}", module.path.join("::")));
            }
        }
    }
    assert!(
        idle.is_empty(),
        "exported, and used by nobody outside (make it `pub(crate)`, or delete it):\n{}",
        idle.join("\n")
    );
}

/// A line that says what somebody gets: a signature, a field, a variant.
fn shapes(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("pub ")
        || line.starts_with("impl")
        || line.contains("->")
        || line.contains(": ")
        || line.ends_with("),")
}

#[test]
fn rooms_have_few_doors() {
    let libraries = libraries();
    for (room, most) in DOORS {
        let items: usize = libraries[room].open().iter().map(|module| public_items(&module.text).len()).sum();
        assert!(items <= most, "`{room}` exports {items} things");
    }
}
