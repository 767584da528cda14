//! One public name means one thing to whoever uses it.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Module, crates, libraries};

/// Types that other crates can name, and where they stand: `wire::connect`.
fn types(library: &str, top: &Module) -> Vec<(String, String)> {
    let declared = |line: &str| {
        let rest = line.strip_prefix("pub ")?;
        let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
        Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>())
    };
    let of = |module: &Module| {
        let at = std::iter::once(library).chain(module.path.iter().map(String::as_str)).collect::<Vec<_>>().join("::");
        module.text.lines().filter_map(declared).map(|name| (name, at.clone())).collect::<Vec<_>>()
    };
    top.open().into_iter().flat_map(of).collect()
}

/// A reader who meets `Status` in a file knows which one: no crate uses two types of one name that other crates have.
#[test]
fn no_crate_uses_two_types_of_one_name() {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let libraries = libraries();
    for (library, top) in &libraries {
        for (name, at) in types(library, top) {
            known.entry(name).or_default().push(at);
        }
    }
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut breaches = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        let roots: Vec<&str> = libraries.keys().map(String::as_str).collect();
        let paths: BTreeSet<String> =
            top.all().iter().flat_map(|module| module.paths(&roots)).map(|path| path.join("::")).collect();
        let uses = |name: &str, at: &str| {
            let path = format!("{at}::{name}");
            paths.iter().any(|it| *it == path || it.starts_with(&format!("{path}::")))
        };
        for (name, places) in known.iter().filter(|(_, places)| places.len() > 1) {
            let met: Vec<&String> = places.iter().filter(|at| uses(name, at)).collect();
            if met.len() > 1 {
                breaches.push(format!("{}: `{name}` of {met:?}", file.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "one name, two types:\n{}", breaches.join("\n"));
}
