//! One public name means one thing to whoever uses it.

use std::collections::{BTreeMap, BTreeSet};

use super::exports::Exports;
use super::modules::{Module, crates, libraries};

/// A reader who meets `Status` in a file knows which one: no crate has two public types of one name, nor uses another crate's
/// beside one that it has itself, or two of others.
#[test]
fn no_crate_uses_two_types_of_one_name() {
    let libraries = libraries();
    let exports: BTreeMap<&String, Exports> =
        libraries.iter().map(|(library, top)| (library, Exports::of(library, top))).collect();
    let roots: Vec<&str> = libraries.keys().map(String::as_str).collect();
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut breaches = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        let library = file.ancestors().nth(2).unwrap().file_name().unwrap().to_string_lossy();
        let own = Exports::of(&library, &top);
        let mut met: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
        for named in own.types().filter(|named| !is_command(named)) {
            met.entry(named.last().unwrap()).or_default().insert(named.join("::"));
        }
        for path in top.all().iter().flat_map(|module| module.paths(&roots)) {
            // Wherever it is named: a re-export is the thing itself.
            let Some(named) = exports[&path[0]].named_type(&path) else { continue };
            met.entry(named.last().unwrap()).or_default().insert(named.join("::"));
        }
        let several = met.into_iter().filter(|(_, places)| places.len() > 1);
        breaches.extend(several.map(|(name, places)| format!("{}: `{name}` of {places:?}", file.display())));
    }
    assert!(breaches.is_empty(), "one name, two types:\n{}", breaches.join("\n"));
}

/// A command is called as its file is, and people type it behind the word for what it is about.
fn is_command(named: &[String]) -> bool {
    let [.., file, name] = named else { return false };
    named.iter().any(|module| module == "commands") && file.replace('_', "") == name.to_lowercase()
}
