//! A function is taken in at one look.

use std::path::{Path, PathBuf};

use super::modules::crates;

/// From the line that names it to the one that ends it.
const MOST_LINES: usize = 60;

/// Long, and better so: file, function, why.
const TABLES: [(&str, &str, &str); 2] = [
    ("org/src/refusal.rs", "hint", "a table: one line for each refusal"),
    ("operate/src/session/error/trust.rs", "fixed_hint", "a table: one line for each error"),
];

/// Each function of a file as rustfmt lays it out, and how many lines it has.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let named = |at: usize| {
        let line = lines[at];
        if !line.contains("fn ") {
            return None;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = words.iter().position(|word| *word == "fn")?;
        let before = ["pub", "const", "async", "unsafe", "extern"];
        let is_one =
            words[..word].iter().all(|it| before.contains(it) || it.starts_with("pub(") || it.starts_with('"'));
        let name: String = words.get(word + 1)?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = format!("{indent}}}");
        // One without a body, or on one line, ends where it begins.
        let last = (at..lines.len()).find(|nth| lines[*nth] == end || (*nth == at && line.ends_with([';', '}'])))?;
        is_one.then_some((name, last - at + 1))
    };
    (0..lines.len()).filter_map(named).collect()
}

#[test]
fn functions_are_counted_from_their_name_to_their_end() {
    let text = "fn a() {}\nimpl A {\n    pub(crate) async fn b(\n        &self,\n    ) -> u8 {\n        if c {\n        }\n    }\n}\n\
                trait T {\n    fn d(&self);\n}\n// how fn e is called\nconst fn f() {\n}\n";
    let found = functions(text);
    let found: Vec<(&str, usize)> = found.iter().map(|(name, lines)| (name.as_str(), *lines)).collect();
    assert_eq!(found, [("a", 1), ("b", 6), ("d", 1), ("f", 2)]);
}

/// Files of a crate that are no tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|entry| entry.file_stem().is_some_and(|name| name != "tests"));
    kept.flat_map(|entry| if entry.is_dir() { sources(&entry) } else { vec![entry] }).collect()
}

#[test]
fn no_function_is_longer_than_a_reader_takes_in() {
    let mut long = Vec::new();
    for at in crates() {
        for file in sources(&at.join("src")).into_iter().filter(|file| file.extension().is_some_and(|it| it == "rs")) {
            let path = file.strip_prefix(at.parent().unwrap()).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
            let longer = functions(text).into_iter().filter(|(_, lines)| *lines > MOST_LINES);
            long.extend(longer.map(|(name, lines)| (path.clone(), name, lines)));
        }
    }
    let may = |path: &str, name: &str| TABLES.iter().any(|(file, known, _)| (*file, *known) == (path, name));
    let more = long.iter().filter(|(path, name, _)| !may(path, name));
    let more: Vec<String> = more.map(|(path, name, lines)| format!("{path}: `{name}` has {lines} lines")).collect();
    assert!(more.is_empty(), "more than {MOST_LINES} lines:\n{}", more.join("\n"));
    for (file, name, _) in TABLES {
        let is_long = long.iter().any(|(path, known, _)| (&**path, &**known) == (file, name));
        assert!(is_long, "`{name}` in `{file}` is short: take it off the list");
    }
}
