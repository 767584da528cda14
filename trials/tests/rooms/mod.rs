//! Rooms keep their order: modules are listed lowest first, folders stay small, nothing is exported that nobody uses.

use std::path::{Path, PathBuf};

use crate::layout::root;

mod modules;
mod tuples;
mod functions;
mod names;
mod exports;
mod methods;

use modules::{Module, crates};

/// A reader takes in so many names at once.
const MOST_ENTRIES: usize = 16;

#[test]
fn modules_are_listed_lowest_first() {
    let all = crates().into_iter().chain([root().join("trials")]);
    let tops = all.flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut breaches = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        for parent in top.all() {
            for (at, child) in parent.children.iter().enumerate() {
                let names = child.names_of(parent);
                let higher = parent.children[at + 1..].iter().filter(|other| names.contains(&other.name));
                breaches.extend(higher.map(|other| {
                    let parent = parent.path.join("::");
                    format!("{}: in `{parent}`, `{}` uses `{}`", file.display(), child.name, other.name)
                }));
            }
        }
    }
    assert!(breaches.is_empty(), "a module uses one that is listed after it:\n{}", breaches.join("\n"));
}

#[test]
fn no_folder_has_more_entries_than_a_reader_takes_in() {
    fn visit(folder: &Path) {
        let entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(entries.len() <= MOST_ENTRIES, "`{}` has {} entries", folder.display(), entries.len());
        entries.iter().filter(|entry| entry.is_dir()).for_each(|entry| visit(entry));
    }
    let tests = ["trials/src", "trials/tests", "trials/benches"];
    let sources = crates().into_iter().map(|at| at.join("src"));
    for folder in sources.chain(tests.map(|folder| root().join(folder))) {
        visit(&folder);
    }
}

#[test]
fn each_library_says_what_it_need_not_export() {
    for at in crates() {
        let Ok(text) = std::fs::read_to_string(at.join("src/lib.rs")) else { continue };
        assert!(text.contains("warn(unreachable_pub)"), "`{}` hears no word of `unreachable_pub`", at.display());
    }
}
