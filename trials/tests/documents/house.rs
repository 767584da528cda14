//! The files and names that there are, and what a text says of them that is not so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::text::{Span, TOP, identifier, paragraphs, spans, top_paths};
use crate::layout::{below, root, sources};

/// In front of a name, these mean a principal or a gateway as often as a crate.
const KINDS: [&str; 2] = ["node", "gateway"];
/// Names that stand for all files which have them.
const EVERYWHERE: [&str; 4] = ["lib.rs", "mod.rs", "main.rs", "tests.rs"];

pub(super) struct House {
    crates: BTreeSet<String>,
    words: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl House {
    pub(super) fn look() -> Self {
        let folders = std::fs::read_dir(root().join("crates")).unwrap();
        let crates = folders.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        let places = ["crates", "trials", "fuzz/src"];
        let mut files: Vec<_> = places.iter().flat_map(|at| sources(&root().join(at))).collect();
        files.extend(below(&root().join("crates"), "sh"));
        let (mut words, mut functions) = (BTreeSet::new(), BTreeSet::new());
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            words.extend(code_of(&text).flat_map(words_of).map(str::to_owned));
            functions.extend(code_of(&text).filter_map(function_of).map(str::to_owned));
        }
        Self { crates, words, functions }
    }

    /// Whether a test or another function has this name.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Whether this word is in the code, outside of comments.
    pub(super) fn says(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Everything that a text names and that is not there, each with its line.
    pub(super) fn complaints(&self, text: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, paragraph) in paragraphs(text) {
            if paragraph.matches('`').count() % 2 == 1 {
                found.push((line, "an odd number of backticks".to_owned()));
                continue;
            }
            let spans = spans(&paragraph);
            found.extend(self.lost_paths(&spans).iter().map(|path| (line, format!("there is no `{path}`"))));
            for (file, name) in self.names_beside_files(&spans) {
                if !has(&std::fs::read_to_string(&file).unwrap(), &name) {
                    found.push((line, format!("`{}` does not define `{}`", file.display(), name.join("::"))));
                }
            }
        }
        for (at, line) in text.lines().enumerate() {
            let lost = top_paths(line).filter(|path| self.find(path, &mut Vec::new()).is_none());
            found.extend(lost.map(|path| (at + 1, format!("there is no `{path}`"))));
        }
        found
    }

    /// Those that begin at the top are looked for in whole texts, not here.
    fn lost_paths<'a>(&self, spans: &'a [Span]) -> Vec<&'a str> {
        let mut beside = Vec::new();
        let paths = spans.iter().map(|span| &*span.text).filter(|text| self.is_path(text));
        let lost = paths.filter(|path| self.find(path, &mut beside).is_none());
        lost.filter(|path| !TOP.contains(&path.split('/').next().unwrap())).collect()
    }

    /// Each code span with a name that directly follows one with a file, or another such name and a comma.
    pub(super) fn names_beside_files<'a>(&self, spans: &'a [Span]) -> Vec<(PathBuf, Vec<&'a str>)> {
        let mut found = Vec::new();
        let mut beside = Vec::new();
        let mut file: Option<(PathBuf, &[&str])> = None;
        for span in spans {
            if self.is_path(&span.text) {
                let path = self.find(&span.text, &mut beside).filter(|path| path.is_file());
                file = path.map(|path| (path, [""].as_slice()));
                continue;
            }
            file = match (file, identifier(&span.text)) {
                (Some((path, between)), Some(name)) if between.contains(&span.between.trim()) => {
                    found.push((path.clone(), name));
                    Some((path, [",", "and", ", and"].as_slice()))
                }
                _ => None,
            };
        }
        found
    }

    /// Whether this means a file or a folder of ours.
    fn is_path(&self, text: &str) -> bool {
        let first = text.split('/').next().unwrap();
        let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/.*".contains(c));
        let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
        let is_file = ending.is_some_and(|ending| ["rs", "sh", "ps1", "svg"].contains(&ending));
        let is_folder = ending.is_none() && text.contains('/') && (!KINDS.contains(&first) || text.ends_with('/'));
        let is_inside = text.split_once('/').is_some_and(|(_, rest)| !rest.is_empty());
        let is_ours = self.crates.contains(first) && (is_file || is_folder) || TOP.contains(&first);
        plain && (is_inside && is_ours || ending == Some("rs"))
    }

    /// A path begins at a crate or at the top, and leaves out `src` or not; a bare file name stands beside a path that was
    /// named before it.
    fn find(&self, text: &str, beside: &mut Vec<PathBuf>) -> Option<PathBuf> {
        let Some((first, rest)) = text.split_once('/') else {
            let found = beside.iter().map(|folder| folder.join(text)).find(|path| exists(path));
            return found.or_else(|| EVERYWHERE.contains(&text).then(|| root().to_owned()));
        };
        let above = if self.crates.contains(first) { root().join("crates") } else { root().to_owned() };
        let found =
            ["src", ""].map(|src| above.join(first).join(src).join(rest)).into_iter().find(|path| exists(path))?;
        beside.push(if found.is_dir() { found.clone() } else { found.parent().unwrap().to_owned() });
        Some(found)
    }
}

/// Whether it is there, or something is that its last part fits if that has a star.
fn exists(path: &Path) -> bool {
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((start, end)) = last.split_once('*') else { return path.exists() };
    let Ok(entries) = std::fs::read_dir(path.parent().unwrap()) else { return false };
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.len() >= start.len() + end.len())
        .any(|name| name.starts_with(start) && name.ends_with(end))
}

/// Whether a file defines the last part of a name, and knows the types before it.
fn has(text: &str, name: &[&str]) -> bool {
    let (own, types) = name.split_last().unwrap();
    let knows = |part: &&str| code_of(text).any(|line| words_of(line).any(|word| word == *part));
    code_of(text).any(|line| defines(line, own)) && types.iter().all(knows)
}

/// Whether a line has a function, type, constant, module, field, variant, or function of a shell of this name.
fn defines(line: &str, name: &str) -> bool {
    const WORDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules"];
    let words: Vec<_> = words_of(line).collect();
    let declared = words.windows(2).any(|pair| WORDS.contains(&pair[0]) && pair[1] == name);
    let bare = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
    let follows = |rest: &str| rest.is_empty() || rest.trim_start().starts_with([',', '(', ':', '{']);
    declared || bare.strip_prefix(name).is_some_and(follows)
}

/// The function that a line begins.
fn function_of(line: &str) -> Option<&str> {
    let mut words = words_of(line).skip_while(|word| *word != "fn");
    words.nth(1)
}

fn code_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
