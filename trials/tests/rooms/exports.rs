//! Nothing is exported that nobody uses, and rooms have few doors.
//!
//! Who uses what is read from paths: `use` lines, and what is written out. A type is used, too, if something that is used has it in
//! its signature, its fields or its variants: whoever gets a thing may never name it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::{Module, Named, crates, follow, libraries, word_of};
use super::tuples::{enclosed, parts};
use crate::layout::{root, sources};

/// How many things of a room have a door to other rooms, at most.
const DOORS: [(&str, usize); 5] = [("ledger", 80), ("member", 80), ("terminal", 80), ("gateway", 80), ("node", 80)];

/// By these a thing begins; other lines at the left edge are the end of a text, or say something of the next.
const BEGINNINGS: [&str; 14] = [
    "pub",
    "impl",
    "use",
    "mod",
    "fn",
    "const",
    "static",
    "struct",
    "enum",
    "trait",
    "type",
    "async",
    "unsafe",
    "macro_rules",
];

type Names = BTreeMap<String, Vec<String>>;

/// What `pub` stands before at a module's outer level.
struct Item {
    name: String,
    /// A type may be had by who never names it.
    is_type: bool,
    /// What somebody who has it can see, and in which modules that is said.
    faces: Vec<(Vec<String>, String)>,
}

/// Each thing at the outer level of a file, with all its lines.
pub(super) fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        if BEGINNINGS.contains(&word_of(line)) {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().unwrap();
        block.push_str(line);
        block.push('\n');
    }
    blocks
}

/// What kind of thing `pub` stands before, and what it is called.
fn public_name(block: &str) -> Option<(&str, String)> {
    let mut words = block.strip_prefix("pub ")?.split_whitespace().peekable();
    while words.next_if(|word| ["async", "unsafe"].contains(word)).is_some() {}
    let mut kind = words.next()?;
    if kind == "const" && words.peek() == Some(&"fn") {
        kind = words.next()?;
    }
    let kinds = ["fn", "struct", "enum", "trait", "type", "static", "const"];
    kinds.contains(&kind).then_some((kind, word_of(words.next()?).to_owned()))
}

/// Items at the outer level of a file.
fn public_items(text: &str, here: &[String]) -> Vec<Item> {
    let item = |block: &String| {
        let (kind, name) = public_name(block)?;
        let face = match kind {
            "fn" => signature(block).to_owned(),
            "static" | "const" => block.split('=').next().unwrap().to_owned(),
            "struct" => fields(block),
            _ => block.clone(),
        };
        let is_type = !["fn", "static", "const"].contains(&kind);
        Some(Item { name, is_type, faces: vec![(here.to_vec(), face)] })
    };
    blocks(text).iter().filter_map(item).collect()
}

/// What stands before the body.
pub(super) fn signature(text: &str) -> &str {
    let mut within = 0_usize;
    let end = text.find(|c: char| {
        match c {
            '(' | '[' => within += 1,
            ')' | ']' => within = within.saturating_sub(1),
            _ => {}
        }
        within == 0 && ['{', ';'].contains(&c)
    });
    &text[..end.unwrap_or(text.len())]
}

/// The public ones.
fn fields(block: &str) -> String {
    let Some(at) = block.find(['{', '(']) else { return block.to_owned() };
    let within = &block[at + 1..at + enclosed(&block[at..]) - 1];
    let public = parts(within).into_iter().filter(|part| part.contains("pub "));
    std::iter::once(&block[..at]).chain(public).collect::<Vec<_>>().join("\n")
}

/// Whose block it is, and what it adds for those who have one.
fn methods(block: &str) -> (Vec<Named>, String) {
    let rest = &block["impl".len()..];
    let rest = if rest.starts_with('<') { &rest[enclosed(rest)..] } else { rest };
    let head = signature(rest);
    let of_trait = head.split_once(" for ");
    let owner = of_trait.map_or(head, |(_, owner)| owner).trim();
    let owner = paths(owner.split('<').next().unwrap(), &[]);
    let begin = if of_trait.is_some() { "\n    type " } else { "\n    pub " };
    (owner, block.match_indices(begin).map(|(at, _)| signature(&block[at..])).collect::<Vec<_>>().join("\n"))
}

/// Every path of a text, whole: what a `use` line says, and what is written out.
fn paths(text: &str, here: &[String]) -> Vec<Named> {
    let (mut found, mut rest, mut before) = (Vec::new(), text, ' ');
    while let Some(c) = rest.chars().next() {
        let word = word_of(rest);
        let begins = !word.is_empty() && ![':', '$', '\''].contains(&before);
        let behind = &rest[word.len().max(c.len_utf8())..];
        rest = if begins {
            let from = if ["crate", "super", "self"].contains(&word) { here } else { &[] };
            follow(rest, from, &mut found)
        } else {
            behind
        };
        before = text[..text.len() - rest.len()].chars().next_back().unwrap_or(' ');
    }
    found
}

/// The words that stand for paths in a text: what its `use` lines say.
fn imports(text: &str, here: &[String]) -> Names {
    let lines = text.match_indices("use ").filter(|(at, _)| {
        let before = text[..*at].rsplit('\n').next().unwrap().trim();
        ["", "pub", "pub(crate)", "pub(super)"].contains(&before)
    });
    let imported = lines.flat_map(|(at, word)| paths(text[at + word.len()..].split(';').next().unwrap(), here));
    let mut names = Names::new();
    // One word can stand for a module and for what is called like it in there; that is used by its `use` line already.
    for Named { path, called } in imported {
        let known = names.entry(called).or_insert_with(|| path.clone());
        if path.len() < known.len() {
            *known = path;
        }
    }
    names
}

/// The same path, from its crate on.
fn whole(path: &[String], library: &str, names: &Names) -> Vec<String> {
    let (first, rest) = path.split_first().unwrap();
    let start = match names.get(first) {
        Some(start) if start.first() != Some(first) || start.len() > 1 => start.clone(),
        _ => vec![first.clone()],
    };
    let mut whole: Vec<String> = start.into_iter().chain(rest.iter().cloned()).collect();
    if whole[0] == "crate" {
        library.clone_into(&mut whole[0]);
    }
    whole
}

/// All paths of sources outside of a crate's library that lead into some library, by whose they are.
fn used() -> Vec<(String, BTreeSet<Vec<String>>)> {
    let folders = crates();
    let libraries = libraries();
    let files = ["crates", "trials", "fuzz"].iter().flat_map(|folder| sources(&root().join(folder)));
    let read = |file: std::path::PathBuf| {
        let within = |at: &&std::path::PathBuf| file.starts_with(at.join("src")) && file != at.join("src/main.rs");
        let owner = folders.iter().find(within).map(|at| at.file_name().unwrap().to_string_lossy().into_owned());
        (owner.unwrap_or_default(), led_by(&file, &libraries))
    };
    files.map(read).collect()
}

fn led_by(file: &Path, libraries: &BTreeMap<String, Module>) -> BTreeSet<Vec<String>> {
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let names = imports(&text, &[]);
    let all = paths(&text, &[]).into_iter().filter(|named| !named.path.is_empty());
    let all = all.map(|named| whole(&named.path, "", &names));
    all.filter(|path| path.len() > 1 && libraries.contains_key(&path[0])).collect()
}

/// A library's things, each by its path.
pub(super) struct Exports {
    items: BTreeMap<Vec<String>, Item>,
    /// By which path somebody gets at what is elsewhere.
    again: BTreeMap<Vec<String>, Vec<String>>,
    /// What each module's words stand for.
    names: BTreeMap<Vec<String>, Names>,
}

impl Exports {
    pub(super) fn of(library: &str, top: &Module) -> Self {
        let mut exports = Self { items: BTreeMap::new(), again: BTreeMap::new(), names: BTreeMap::new() };
        for module in top.all() {
            let here = place(library, module);
            let at = |name: &str| [&here[..], &[name.to_owned()]].concat();
            let mut names = imports(&module.text, &here);
            for path in names.values_mut() {
                *path = from_here(path, library, module, &here);
            }
            names.extend(module.children.iter().map(|child| (child.name.clone(), at(&child.name))));
            for item in public_items(&module.text, &here) {
                names.insert(item.name.clone(), at(&item.name));
                exports.items.insert(at(&item.name), item);
            }
            for line in blocks(&module.text).iter().filter(|block| block.starts_with("pub use ")) {
                let again = imports(line, &here).into_iter();
                exports.again.extend(again.map(|(name, path)| (at(&name), from_here(&path, library, module, &here))));
            }
            exports.names.insert(here, names);
        }
        for module in top.all() {
            exports.add_methods(library, module);
        }
        exports
    }

    /// Wherever they stand.
    fn add_methods(&mut self, library: &str, module: &Module) {
        let here = place(library, module);
        for block in blocks(&module.text).iter().filter(|block| word_of(block) == "impl") {
            let (owner, face) = methods(block);
            let owner = owner.first().map(|owner| whole(&owner.path, library, &self.names[&here]));
            let owner = owner.and_then(|owner| self.item(&owner).cloned());
            if let Some(item) = owner.and_then(|owner| self.items.get_mut(&owner)) {
                item.faces.push((here.clone(), face));
            }
        }
    }

    /// The thing at which a path ends or which it goes through.
    fn item(&self, path: &[String]) -> Option<&Vec<String>> {
        (1..=path.len()).rev().find_map(|to| {
            let (part, rest) = path.split_at(to);
            let known = self.items.get_key_value(part).map(|(path, _)| path);
            known.or_else(|| self.item(&[self.again.get(part)?, rest].concat()))
        })
    }

    /// The public types of all its modules.
    pub(super) fn types(&self) -> impl Iterator<Item = &Vec<String>> {
        self.items.iter().filter(|(_, item)| item.is_type).map(|(at, _)| at)
    }

    /// The type at which a path ends or which it goes through.
    pub(super) fn named_type(&self, path: &[String]) -> Option<&Vec<String>> {
        self.item(path).filter(|at| self.items[*at].is_type)
    }

    /// Everything that is used if these paths are.
    fn reached<'e>(
        &'e self,
        library: &str,
        paths_used: impl Iterator<Item = &'e Vec<String>>,
    ) -> BTreeSet<&'e Vec<String>> {
        let mut open: Vec<&Vec<String>> = paths_used.filter_map(|path| self.item(path)).collect();
        let mut reached = BTreeSet::new();
        while let Some(at) = open.pop() {
            if reached.insert(at) {
                open.extend(self.items[at].faces.iter().flat_map(|(here, face)| self.types_of(library, here, face)));
            }
        }
        reached
    }

    fn types_of(&self, library: &str, here: &[String], face: &str) -> Vec<&Vec<String>> {
        let seen = paths(face, here).into_iter().filter(|named| !named.path.is_empty());
        let seen = seen.filter_map(|named| self.item(&whole(&named.path, library, &self.names[here])));
        seen.filter(|at| self.items[*at].is_type).collect()
    }
}

/// A module's path, from its crate on.
fn place(library: &str, module: &Module) -> Vec<String> {
    std::iter::once(library.to_owned()).chain(module.path.iter().cloned()).collect()
}

/// A path in a module, from its crate on: it may begin with a child of that module.
fn from_here(path: &[String], library: &str, module: &Module, here: &[String]) -> Vec<String> {
    let is_child = module.children.iter().any(|child| Some(&child.name) == path.first());
    let none = Names::new();
    if is_child { [here, path].concat() } else { whole(path, library, &none) }
}

/// Whoever uses a macro of a crate uses what that names.
fn in_macros(library: &str, module: &Module) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in module.text.match_indices("$crate::") {
        follow(&module.text[at + 1..], &[], &mut found);
    }
    found.into_iter().map(|named| whole(&named.path, library, &Names::new())).collect()
}

#[test]
fn who_names_a_thing_and_who_gets_one_is_found() {
    let module = |name: &str, text: &str, children| {
        let path = if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
        Module { name: name.to_owned(), path, is_public: true, text: text.to_owned(), children }
    };
    let low =
        "pub struct Kept { of: Hidden, pub with: [Got; 2] }\npub struct Got;\npub struct Hidden;\npub fn alone() {}\n";
    let high = "use crate::low::{self, Kept as Other};\npub fn open(at: &[u8; 4]) -> Result<low::Got, Why> {\n}\npub enum Why {}
impl Other {\n    pub fn more(&self) -> Box<More> {\n    }\n}\npub struct More;\npub use crate::low::Kept;\n";
    let top = module("", "", vec![module("low", low, Vec::new()), module("high", high, Vec::new())]);
    let exports = Exports::of("a", &top);
    let reached = |text: &str| {
        let names = imports(text, &[]);
        let paths: Vec<_> = paths(text, &[]).iter().map(|named| whole(&named.path, "", &names)).collect();
        let reached = exports.reached("a", paths.iter());
        reached.iter().map(|path| path[1..].join("::")).collect::<Vec<_>>()
    };
    assert_eq!(reached("use a::high; fn f() { high::open(b\"\") }"), ["high::Why", "high::open", "low::Got"]);
    assert_eq!(reached("use a::{high::{Kept as K}};"), ["high::More", "low::Got", "low::Kept"]);
    assert_eq!(reached("fn f() { a::low::alone(); open(); low::Hidden }"), ["low::alone"]);
    assert_eq!(reached("use a::low::{self, Got as low}; fn f() { low::alone() }"), ["low::Got", "low::alone"]);
}

#[test]
fn no_crate_exports_what_nobody_uses() {
    let (mut idle, used) = (Vec::new(), used());
    for (library, top) in libraries() {
        let exports = Exports::of(&library, &top);
        let outside = used.iter().filter(|(owner, _)| *owner != library).flat_map(|(_, paths)| paths);
        let in_macros = top.all().into_iter().flat_map(|module| in_macros(&library, module)).collect::<Vec<_>>();
        let outside = outside.filter(|path| path[0] == library).chain(&in_macros);
        let outside: BTreeSet<&Vec<String>> = outside.collect();
        let reached = exports.reached(&library, outside.iter().copied());
        for module in top.open() {
            let here = place(&library, module);
            if !outside.iter().any(|path| path.starts_with(&here)) {
                idle.push(here.join("::"));
            }
            let within = exports.items.keys().filter(|at| at[..at.len() - 1] == here[..]);
            idle.extend(within.filter(|at| !reached.contains(at)).map(|at| at.join("::")));
        }
    }
    assert!(
        idle.is_empty(),
        "exported, and used by nobody outside (make it `pub(crate)`, or delete it):\n{}",
        idle.join("\n")
    );
}

#[test]
fn rooms_have_few_doors() {
    let libraries = libraries();
    for (room, under) in DOORS {
        let items: usize = libraries[room].open().iter().map(|module| public_items(&module.text, &[]).len()).sum();
        assert!(items < under, "`{room}` exports {items} things");
    }
}
