//! Rooms keep their order: modules are listed lowest first, folders stay small, nothing is exported that nobody uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::layout::{root, sources};

/// A reader takes in so many names at once.
const MOST_ENTRIES: usize = 16;
/// How many things of a room have a door to other rooms, at most. Gateways and commands both stand on `member`.
const DOORS: [(&str, usize); 5] = [("ledger", 80), ("member", 110), ("terminal", 80), ("gateway", 80), ("node", 80)];

fn crates() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// A module, as it lies on disk.
struct Module {
    name: String,
    /// From the crate on: `store::scope`.
    path: Vec<String>,
    is_public: bool,
    /// Without comments and tests.
    text: String,
    children: Vec<Self>,
}

impl Module {
    /// The crate that begins in this file.
    fn read(file: &Path, path: Vec<String>, is_public: bool) -> Self {
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

    fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.children.iter().flat_map(Self::all)).collect()
    }

    /// Those that other crates can name.
    fn open(&self) -> Vec<&Self> {
        let children = self.children.iter().filter(|child| child.is_public);
        std::iter::once(self).chain(children.flat_map(Self::open)).collect()
    }

    /// The children of `parent` that something in here names.
    fn names_of(&self, parent: &Self) -> BTreeSet<String> {
        let prefix = std::iter::once("crate").chain(parent.path.iter().map(String::as_str)).collect::<Vec<_>>();
        let prefix = format!("{}::", prefix.join("::"));
        self.all().iter().flat_map(|module| named_after(&module.text, &prefix)).collect()
    }
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

/// What stands behind each `prefix`, also in braces.
fn named_after(text: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let behind = text.match_indices(prefix).map(|(at, _)| &text[at + prefix.len()..]);
    let names = behind.flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => {
            let group = group.split(';').next().unwrap();
            group.split(',').map(|part| word(part.trim())).collect::<Vec<_>>()
        }
        None => vec![word(rest)],
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn libraries() -> BTreeMap<String, Module> {
    let with =
        |name: &str, file: PathBuf| file.exists().then(|| (name.to_owned(), Module::read(&file, Vec::new(), true)));
    crates().iter().filter_map(|at| with(&at.file_name().unwrap().to_string_lossy(), at.join("src/lib.rs"))).collect()
}

#[test]
fn modules_are_listed_lowest_first() {
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
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
    for at in crates() {
        visit(&at.join("src"));
    }
}

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
        let within = |at: &&PathBuf| file.starts_with(at.join("src")) && file != at.join("src/main.rs");
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
    for (library, top) in &libraries() {
        for (name, at) in types(library, top) {
            known.entry(name).or_default().push(at);
        }
    }
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut breaches = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        let texts: Vec<&str> = top.all().iter().map(|module| module.text.as_str()).collect();
        let uses = |name: &str, at: &str| {
            texts.iter().any(|text| named_after(text, &format!("{at}::")).iter().any(|it| it == name))
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
