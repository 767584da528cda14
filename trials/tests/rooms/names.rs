//! One public name means one thing to whoever uses it.

use std::collections::{BTreeMap, BTreeSet};

use super::exports::Exports;
use super::modules::{Module, crates, libraries};

/// A reader who meets `Status` in a file knows which one: no crate uses two types of one name that other crates have.
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
        let mut met: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
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
