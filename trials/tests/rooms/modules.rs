//! The crates as they lie on disk: modules, and the paths that stand in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::layout::root;

pub(super) fn crates() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// A module, as it lies on disk.
pub(super) struct Module {
    pub(super) name: String,
    /// From the crate on: `store::scope`.
    pub(super) path: Vec<String>,
    pub(super) is_public: bool,
    /// Without comments and tests.
    pub(super) text: String,
    pub(super) children: Vec<Self>,
}

impl Module {
    /// The crate that begins in this file.
    pub(super) fn read(file: &Path, path: Vec<String>, is_public: bool) -> Self {
        let whole = std::fs::read_to_string(file).unwrap();
        let text = without_tests(&whole);
        let stem = file.file_stem().unwrap().to_string_lossy();
        let folder = file.parent().unwrap();
        let within =
            if ["lib", "main", "mod"].contains(&&*stem) { folder.to_owned() } else { folder.join(stem.as_ref()) };
        let children = declared(&text).into_iter().map(|(name, is_public)| {
            let flat = within.join(format!("{name}.rs"));
            let file = if flat.exists() { flat } else { within.join(&name).join("mod.rs") };
            Self::read(&file, path.iter().cloned().chain([name]).collect(), is_public)
        });
        let children = children.collect();
        let name = path.last().cloned().unwrap_or_default();
        Self { name, path, is_public, text, children }
    }

    pub(super) fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.children.iter().flat_map(Self::all)).collect()
    }

    /// Those that other crates can name.
    pub(super) fn open(&self) -> Vec<&Self> {
        let children = self.children.iter().filter(|child| child.is_public);
        std::iter::once(self).chain(children.flat_map(Self::open)).collect()
    }

    /// The children of `parent` that something in here names.
    pub(super) fn names_of(&self, parent: &Self) -> BTreeSet<String> {
        let within: Vec<String> = std::iter::once("crate".to_owned()).chain(parent.path.iter().cloned()).collect();
        let all = self.all().into_iter().flat_map(|module| module.paths(&["crate", "super", "self"]));
        all.filter_map(|path| path.strip_prefix(&within[..])?.first().cloned()).collect()
    }

    /// Every path that stands here behind one of these words, from `crate` or another crate on.
    pub(super) fn paths(&self, roots: &[&str]) -> Vec<Vec<String>> {
        let here: Vec<String> = std::iter::once("crate".to_owned()).chain(self.path.iter().cloned()).collect();
        let mut found = Vec::new();
        for root in roots {
            let from: &[String] = if ["crate", "super", "self"].contains(root) { &here } else { &[] };
            for (at, _) in self.text.match_indices(&format!("{root}::")) {
                let before = self.text[..at].chars().next_back();
                if !before.is_some_and(|c| c.is_alphanumeric() || ['_', ':', '$'].contains(&c)) {
                    follow(&self.text[at..], from, &mut found);
                }
            }
        }
        found.into_iter().map(|named| named.path).collect()
    }
}

/// A path, and the word that stands for it from then on if it stands behind `use`.
pub(super) struct Named {
    pub(super) path: Vec<String>,
    pub(super) called: String,
}

/// Reads one path, or each of a group, and gives back what stands behind it.
pub(super) fn follow<'t>(text: &'t str, from: &[String], found: &mut Vec<Named>) -> &'t str {
    let (mut rest, mut path) = (text.trim_start(), from.to_vec());
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            rest = group.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                rest = follow(rest, &path, found);
                // Another name for it.
                rest = rest.trim_start_matches(|c| c != ',' && c != '}').trim_start_matches(',').trim_start();
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let word = word_of(rest);
        let behind = &rest[word.len()..];
        match word {
            "crate" => path = vec!["crate".to_owned()],
            "super" => drop(path.pop()),
            "self" => {}
            _ => path.push(word.to_owned()),
        }
        let Some(more) = behind.strip_prefix("::") else {
            let other = behind.trim_start().strip_prefix("as ").map(word_of);
            let called = other.or_else(|| path.last().map(String::as_str)).unwrap_or_default().to_owned();
            found.push(Named { path, called });
            return behind;
        };
        rest = more;
    }
}

/// What a text begins with.
pub(super) fn word_of(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Code as it is shipped.
fn without_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim() == "#[cfg(test)]" {
            let ends = lines[at + 1].ends_with(';');
            let closing =
                lines[at + 1..].iter().position(|line| *line == "}").map_or(lines.len(), |more| at + 2 + more);
            at = if ends { at + 2 } else { closing };
            continue;
        }
        kept.push(lines[at].split("//").next().unwrap());
        at += 1;
    }
    kept.join("\n")
}

/// The modules that a file lists, in its order, and whether each is public.
fn declared(text: &str) -> Vec<(String, bool)> {
    let module = |line: &str| {
        let (is_public, rest) = match line.strip_prefix("pub ") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("pub(crate) ").unwrap_or(line)),
        };
        Some((rest.strip_prefix("mod ")?.strip_suffix(';')?.to_owned(), is_public))
    };
    text.lines().filter_map(|line| module(line.trim_end())).collect()
}

pub(super) fn libraries() -> BTreeMap<String, Module> {
    let with =
        |name: &str, file: PathBuf| file.exists().then(|| (name.to_owned(), Module::read(&file, Vec::new(), true)));
    crates().iter().filter_map(|at| with(&at.file_name().unwrap().to_string_lossy(), at.join("src/lib.rs"))).collect()
}

#[test]
fn a_path_is_followed_from_where_it_stands() {
    let text = "use super::{b::{C, d as e}, f}; use super::super::z; use crate::g; fn h() { self::i::j(); wire::connect::k(1) }";
    let path = ["x", "y"].map(str::to_owned).to_vec();
    let module = Module { name: String::new(), path, is_public: true, text: text.to_owned(), children: Vec::new() };
    let paths = |roots: &[&str]| module.paths(roots).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(paths(&["super"]), ["crate::x::b::C", "crate::x::b::d", "crate::x::f", "crate::z"]);
    assert_eq!(paths(&["crate", "self", "wire"]), ["crate::g", "crate::x::y::i::j", "wire::connect::k"]);
}
