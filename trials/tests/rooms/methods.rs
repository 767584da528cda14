//! A type's methods live in one file or one folder: elsewhere they are a knot that no `use` shows.

use std::collections::{BTreeMap, BTreeSet};

use super::exports::{blocks, signature};
use super::modules::{Module, crates, word_of};
use super::tuples::enclosed;

/// The types that a module declares: all, or those that others can name.
fn declared(text: &str, private: bool) -> BTreeSet<String> {
    let name = |line: &str| {
        let public =
            line.strip_prefix("pub").map(|rest| &rest[if rest.starts_with('(') { enclosed(rest) } else { 0 }..]);
        let rest = public.map(str::trim_start).or_else(|| private.then_some(line))?;
        let rest = ["struct ", "enum "].iter().find_map(|word| rest.strip_prefix(word))?;
        Some(word_of(rest).to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Whose own methods a module has; what traits ask for is another matter.
fn owners(text: &str) -> Vec<String> {
    let owner = |block: &String| {
        let rest = block.strip_prefix("impl").filter(|_| word_of(block) == "impl")?;
        let rest = if rest.starts_with('<') { &rest[enclosed(rest)..] } else { rest };
        let head = signature(rest).trim();
        let name = head.split(['<', ' ']).next().unwrap_or(head);
        (!head.contains(" for ")).then(|| name.rsplit("::").next().unwrap_or(name).to_owned())
    };
    blocks(text).iter().filter_map(owner).collect()
}

/// The modules with methods of a type that are neither where it is declared nor below, unless all lie in one folder.
fn strays(top: &Module) -> Vec<String> {
    let (mut homes, mut places): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) = (BTreeMap::new(), BTreeMap::new());
    for module in top.all() {
        let (open, own) = (declared(&module.text, false), declared(&module.text, true));
        // A type of its own may be called as another module's.
        let others = owners(&module.text).into_iter().filter(|name| open.contains(name) || !own.contains(name));
        for name in others {
            places.entry(name).or_default().push(&module.path);
        }
        for name in open {
            homes.entry(name).or_default().push(&module.path);
        }
    }
    let mut strays = Vec::new();
    for (name, places) in places {
        let Some([home]) = homes.get(&name).map(Vec::as_slice) else { continue };
        let folder = |path: &Vec<String>| path.split_last().map(|(_, folder)| folder.to_vec());
        let is_flat = places.iter().all(|place| folder(place) == folder(home));
        let outside = places.into_iter().filter(|place| !is_flat && !place.starts_with(home));
        strays.extend(outside.map(|place| format!("`{name}` of {}: {}", home.join("::"), place.join("::"))));
    }
    strays
}

#[test]
fn methods_that_stray_are_found() {
    let module = |path: &[&str], text: &str, children| {
        let path: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
        let name = path.last().cloned().unwrap_or_default();
        Module { name, path, is_public: true, text: text.to_owned(), children }
    };
    let below = module(&["a", "more"], "impl One {\n}\nimpl Drop for Two {\n}\n", Vec::new());
    let a = module(&["a"], "pub struct One;\npub(crate) enum Two {}\nimpl Two {\n}\n", vec![below]);
    let deep = module(&["b", "c"], "impl<'a> crate::a::One {\n}\n", Vec::new());
    let b = module(&["b"], "impl Two {\n}\n", vec![deep]);
    let top = module(&[], "", vec![a, b]);
    assert_eq!(strays(&top), ["`One` of a: b::c"]);
}

#[test]
fn methods_of_a_type_live_in_one_file_or_one_folder() {
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut all = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let of = strays(&Module::read(&file, Vec::new(), true));
        all.extend(of.into_iter().map(|stray| format!("{}: {stray}", file.display())));
    }
    assert!(all.is_empty(), "make them functions that take what they need:\n{}", all.join("\n"));
}
