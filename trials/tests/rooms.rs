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
        let within: Vec<String> = std::iter::once("crate".to_owned()).chain(parent.path.iter().cloned()).collect();
        let all = self.all().into_iter().flat_map(|module| module.paths(&["crate", "super", "self"]));
        all.filter_map(|path| path.strip_prefix(&within[..])?.first().cloned()).collect()
    }

    /// Every path that stands here behind one of these words, from `crate` or another crate on.
    fn paths(&self, roots: &[&str]) -> Vec<Vec<String>> {
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
        found
    }
}

/// Reads one path, or each of a group, and gives back what stands behind it.
fn follow<'t>(text: &'t str, from: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
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
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        match word {
            "crate" => path = vec!["crate".to_owned()],
            "super" => drop(path.pop()),
            "self" => {}
            _ => path.push(word.to_owned()),
        }
        let Some(more) = behind.strip_prefix("::") else {
            found.push(path);
            return behind;
        };
        rest = more;
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

fn libraries() -> BTreeMap<String, Module> {
    let with =
        |name: &str, file: PathBuf| file.exists().then(|| (name.to_owned(), Module::read(&file, Vec::new(), true)));
    crates().iter().filter_map(|at| with(&at.file_name().unwrap().to_string_lossy(), at.join("src/lib.rs"))).collect()
}

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

/// Functions of a file that take a tuple: whoever reads a call of one sees no names.
fn taking_tuples(text: &str) -> Vec<String> {
    let starts = text.match_indices("fn ").filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()));
    let takes = starts.filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let rest = &rest[name.len()..];
        let rest = if rest.starts_with('<') { &rest[enclosed(rest)..] } else { rest };
        let within = rest.starts_with('(').then(|| &rest[1..enclosed(rest) - 1])?;
        parts(within).into_iter().any(is_tuple).then_some(name)
    });
    takes.collect()
}

/// A parameter of the type `(A, B)`, however it is lent.
fn is_tuple(parameter: &str) -> bool {
    let depth_of = |at: usize| depths(parameter)[at];
    let colon = parameter.match_indices(": ").find(|(at, _)| depth_of(*at) == 0);
    let Some((at, _)) = colon else { return false };
    let mut lent = parameter[at + 2..].trim();
    while let Some(rest) = lent.strip_prefix('&') {
        let rest = rest.strip_prefix('\'').map_or(rest, |rest| rest.split_once(' ').map_or("", |(_, rest)| rest));
        lent = rest.strip_prefix("mut ").unwrap_or(rest).trim();
    }
    lent.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).is_some_and(|within| parts(within).len() > 1)
}

/// How deep each byte lies in brackets.
fn depths(text: &str) -> Vec<usize> {
    let (mut depth, mut before) = (0_usize, ' ');
    let mut of = |c: char| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if before != '-' && before != '=' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        depth
    };
    text.chars().flat_map(|c| std::iter::repeat_n(of(c), c.len_utf8())).collect()
}

/// So long is what begins with a bracket, up to the one that closes it.
fn enclosed(text: &str) -> usize {
    depths(text).iter().position(|depth| *depth == 0).map_or(text.len(), |at| at + 1)
}

/// What stands between commas that are in no bracket.
fn parts(text: &str) -> Vec<&str> {
    let depths = depths(text);
    let commas = text.match_indices(',').map(|(at, _)| at).filter(|at| depths[*at] == 0);
    let (mut from, mut parts) = (0, Vec::new());
    for at in commas.chain([text.len()]) {
        parts.push(text[from..at].trim());
        from = at + 1;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn a_function_that_takes_a_tuple_is_found() {
    let text = "fn a<F: Fn((u8, u8)) -> u8>(of: F, why: &(dyn Error + 'static)) fn b((x, y): (u8, &str))
        fn c(&self, one: u8, both: &'a mut (u8, u8)) fn d(many: Vec<(u8, u8)>, f: impl Fn(u8, (u8, u8))) fn e(none: ())";
    assert_eq!(taking_tuples(text), ["b", "c"]);
}

#[test]
fn no_function_takes_a_tuple() {
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut takes = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        for module in top.all() {
            let place = format!("{}: {}", file.display(), module.path.join("::"));
            takes.extend(taking_tuples(&module.text).into_iter().map(|name| format!("{place}::{name}")));
        }
    }
    assert!(takes.is_empty(), "give each its own name, or both a type:\n{}", takes.join("\n"));
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
