//! The house keeps its shape: crates point down, and nobody links what can found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Lowest first. A crate may use only what stands before it. Rooms that are not built yet keep their place.
const LAYERS: [(&str, &[&str]); 16] = [
    ("identity", &[]),
    ("org", &["identity"]),
    ("manifest", &["identity"]),
    ("ground", &["identity"]),
    ("token", &["identity", "ground"]),
    ("wire", &["identity", "org", "manifest", "ground"]),
    ("ledger", &["identity", "org", "ground", "wire"]),
    ("tunnel", &["identity", "org", "manifest", "ground", "wire"]),
    ("member", &["identity", "org", "manifest", "ground", "wire", "tunnel"]),
    ("terminal", &["identity", "org", "ground", "wire", "member"]),
    ("gateway", &["identity", "org", "manifest", "ground", "wire", "ledger", "member"]),
    ("node", &["identity", "org", "manifest", "ground", "wire", "ledger", "tunnel", "member", "terminal", "gateway"]),
    ("operate", &["identity", "org", "manifest", "ground", "wire", "ledger"]),
    ("console", &["identity", "org", "manifest", "ground", "wire", "ledger", "operate"]),
    (
        "admin",
        &[
            "identity", "org", "manifest", "ground", "wire", "ledger", "member", "terminal", "gateway", "node",
            "operate", "console",
        ],
    ),
    ("trials", &["identity", "org", "manifest", "ground", "wire", "ledger"]),
];

/// What a pure crate may use from outside: no clock, no disk, no socket, no thread of its own.
const PURE: [&str; 3] = ["identity", "org", "manifest"];
const IMPURE: [&str; 9] =
    ["tokio", "hyper", "hyper-util", "rusqlite", "rustls", "tokio-rustls", "tempfile", "rustix", "tracing"];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Names that every crate's manifest has under these sections.
fn named_under(is_meant: impl Fn(&str) -> bool) -> BTreeMap<String, BTreeSet<String>> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let all = crates.chain([root().join("trials")]);
    all.map(|folder| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        (name, names_under(&manifest, &is_meant))
    })
    .collect()
}

fn names_under(manifest: &str, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let (mut names, mut within) = (BTreeSet::new(), false);
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            // `[dependencies.wire]` is one, too.
            let (table, one) = section.split_once("dependencies.").unwrap_or((section, ""));
            let table = if one.is_empty() { table.to_owned() } else { format!("{table}dependencies") };
            within = is_meant(&table) && one.is_empty();
            names.extend(Some(one.to_owned()).filter(|one| is_meant(&table) && !one.is_empty()));
        } else if within {
            let name = line.split(['.', ' ', '=', '#']).next().unwrap_or_default();
            names.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
        }
    }
    names
}

/// What is linked into a crate, on whatever machine it is built.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    named_under(|section| section.ends_with("dependencies") && !section.ends_with("dev-dependencies"))
}

#[test]
fn a_dependency_is_found_in_whatever_section_it_stands() {
    let manifest =
        "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true # c\n# d\n[dependencies.e]\npath = \"e\"\n
[target.'cfg(unix)'.dependencies]\nf = \"1\"\n[dev-dependencies]\ng = { path = \"g\" }\n[lints]\nh = true\n";
    let linked = names_under(manifest, |section| section.ends_with("dependencies") && !section.contains("dev-"));
    assert_eq!(linked.into_iter().collect::<Vec<_>>(), ["b", "e", "f"]);
    let tests = names_under(manifest, |section| section.ends_with("dev-dependencies"));
    assert_eq!(tests.into_iter().collect::<Vec<_>>(), ["g"]);
}

#[test]
fn crates_point_down() {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.into_iter().collect();
    for (name, uses) in dependencies() {
        let allowed = layers.get(name.as_str()).unwrap_or_else(|| panic!("`{name}` has no place in LAYERS"));
        for used in uses.iter().filter(|used| layers.contains_key(used.as_str())) {
            assert!(allowed.contains(&used.as_str()), "`{name}` must not use `{used}`");
        }
    }
    // Tests of a crate take the org by hand; only the walks know rooms above them.
    for (name, uses) in named_under(|section| section.ends_with("dev-dependencies")) {
        let allowed = layers[name.as_str()];
        for used in uses.iter().filter(|used| layers.contains_key(used.as_str()) && *used != "trials") {
            assert!(allowed.contains(&used.as_str()) || name == "trials", "tests of `{name}` must not use `{used}`");
        }
    }
}

#[test]
fn nobody_links_what_can_found() {
    for (name, uses) in dependencies() {
        assert!(!uses.contains("admin"), "`{name}` links `admin`");
    }
}

#[test]
fn nobody_links_what_is_for_tests() {
    for (name, uses) in dependencies().into_iter().filter(|(name, _)| name != "trials") {
        assert!(!uses.contains("testorg") && !uses.contains("trials"), "`{name}` links what is for tests");
    }
}

#[test]
fn only_the_program_for_tokens_loads_foreign_code() {
    for (name, uses) in dependencies() {
        assert!(!uses.contains("token"), "`{name}` links `token`");
        let loads = ["cryptoki", "libloading"].iter().any(|foreign| uses.contains(*foreign));
        assert_eq!(loads, name == "token", "`{name}`");
    }
}

#[test]
fn pure_crates_cannot_reach_the_world() {
    for name in PURE {
        if let Some(uses) = dependencies().get(name) {
            for banned in IMPURE {
                assert!(!uses.contains(banned), "the pure crate `{name}` uses `{banned}`");
            }
            let lints = std::fs::read_to_string(root().join("crates").join(name).join("clippy.toml")).unwrap();
            assert!(lints.contains("SystemTime::now"), "`{name}` does not ban the clock");
        }
    }
}

#[test]
fn one_path_makes_svids() {
    let is_for_tests = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let files = sources(&root().join("crates")).into_iter().filter(|path| !is_for_tests(path));
    let callers: Vec<_> =
        files.filter(|path| std::fs::read_to_string(path).unwrap().contains(".issue_svid(")).collect();
    assert_eq!(callers.len(), 1, "SVIDs are made in {callers:?}");
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in ["crates", "trials", "fuzz/src", "fuzz/fuzz_targets"].iter().flat_map(|at| sources(&root().join(at))) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "`{}` does not begin with a sentence", file.display());
    }
}

#[test]
fn no_file_outgrows_its_name() {
    for file in sources(&root().join("crates")) {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 500, "`{}` has {lines} lines: two names would serve the reader better", file.display());
    }
}

/// Five walks run at once, beside whatever the machine runs: a node that is declared at a port listens there or is not well.
#[test]
fn no_walk_declares_a_node_at_a_port_that_others_may_have() {
    let bare = |rest: &str| {
        let at = rest.trim_start_matches(['\\', '"', '\'']).strip_prefix("127.0.0.1:");
        at.is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()))
    };
    let fixed = |line: &str| {
        let rest = line.split("127.0.0.1:").skip(1);
        rest.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    for file in ["trials/src", "trials/tests"].iter().flat_map(|at| sources(&root().join(at))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let declared = text.split("address: ").skip(1).find(|rest| bare(rest)).map(|rest| rest.lines().next());
        let calls =
            text.lines().find(|line| ["--from", "publish("].iter().any(|call| line.contains(call)) && fixed(line));
        assert_eq!(calls, None, "`{}`: call `Nobody`, which nobody else can be", file.display());
        assert_eq!(declared, None, "`{}`: take the port from a `Claim`, as `Place::write_fleet` does", file.display());
    }
}

pub(crate) fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    below(folder, "rs")
}

pub(crate) fn below(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}
