//! The documents tell the truth: what they link to, name or promise is there.

mod text;
mod house;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use house::House;
use text::{identifier, is_ours, outside_of_fences, paragraphs, spans};

use crate::layout::{below, root};

struct Document {
    name: String,
    text: String,
}

impl Document {
    fn read(path: &Path) -> Self {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        Self { name, text: std::fs::read_to_string(path).unwrap() }
    }

    fn folder(&self) -> PathBuf {
        root().join(&self.name).parent().unwrap().to_owned()
    }

    /// The changelog tells what was once so, and so does a decision that another one overruled, if only in part.
    fn is_history(&self) -> bool {
        self.name == "CHANGELOG.md" || self.overruled().is_some()
    }

    /// What a decision record says at its top of the one that overruled it.
    fn overruled(&self) -> Option<String> {
        let said = self.text.lines().find_map(|line| line.strip_prefix("*Overruled "))?;
        let by = said.split_inclusive(')').next()?;
        self.name.starts_with("docs/decisions/0").then(|| format!("overruled {by}"))
    }

    /// What reads like a map of the code: every name in it is one of the code.
    fn is_map(&self) -> bool {
        ["ARCHITECTURE.md", "docs/invariants.md"].contains(&&*self.name) || self.name.starts_with("docs/walks/")
    }
}

fn documents() -> Vec<Document> {
    let first = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root().join(name));
    let mut paths = below(&root().join("docs"), "md");
    paths.extend(first);
    paths.sort();
    paths.iter().map(|path| Document::read(path)).collect()
}

fn document(name: &str) -> Document {
    Document::read(&root().join(name))
}

/// Fails with everything that is wrong at once.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut complaints = Vec::new();
    for document in documents() {
        let links = document.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (target, place) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { root().join(&document.name) } else { document.folder().join(target) };
            let leads = path.exists() && (place.is_empty() || places(&path).contains(place));
            if !leads {
                complaints.push(format!("`{}` links to `{link}`, which is not there", document.name));
            }
        }
    }
    assert_none(&complaints);
}

/// What a link into a document can point at: its headings, as web pages of repositories name them.
fn places(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let headings = outside_of_fences(&text).filter(|(_, line)| line.starts_with('#'));
    let mut seen = BTreeMap::<String, usize>::new();
    headings
        .map(|(_, line)| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
            let place: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let count = seen.entry(place.clone()).or_default();
            *count += 1;
            if *count == 1 { place } else { format!("{place}-{}", *count - 1) }
        })
        .collect()
}

#[test]
fn the_guide_names_every_refusal() {
    let source = std::fs::read_to_string(root().join("crates/org/src/refusal.rs")).unwrap();
    let guide = document("docs/guide/joining-fails.md").text;
    let variants = source.split("pub enum Refusal {").nth(1).unwrap().split("\n}").next().unwrap();
    let names = variants.lines().map(str::trim).filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let names: Vec<_> = names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap()).collect();
    assert!(names.len() > 30, "the list was found");
    for name in names {
        let mut code = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() && !code.is_empty() {
                code.push('_');
            }
            code.push(letter.to_ascii_lowercase());
        }
        assert!(guide.contains(&format!("`{code}`")), "when joining fails, what does `{code}` mean?");
    }
}

#[test]
fn every_document_is_found_by_a_question() {
    let index = document("docs/README.md").text;
    let asked = |name: &str| index.contains(&format!("({name})")) || index.contains(&format!("({name}#"));
    let documents = documents();
    let names = documents.iter().filter_map(|each| each.name.strip_prefix("docs/"));
    let lost = names.filter(|name| *name != "README.md" && !name.starts_with("decisions/0") && !asked(name));
    assert_none(&lost.map(|name| format!("no question in `docs/README.md` leads to `{name}`")).collect::<Vec<_>>());
}

#[test]
fn the_index_of_decisions_has_every_record_and_what_became_of_it() {
    let index = document("docs/decisions/README.md").text;
    let documents = documents();
    let records: Vec<_> = documents.iter().filter(|each| each.name.starts_with("docs/decisions/0")).collect();
    let rows: Vec<_> = index.lines().filter(|line| line.starts_with("| [0")).collect();
    assert_eq!(rows.len(), records.len(), "a row for each record, and no other");
    let mut complaints = Vec::new();
    for record in records {
        let file = record.name.rsplit('/').next().unwrap();
        let start = format!("| [{}]({file}) |", &file[..4]);
        let status = record.overruled().unwrap_or_else(|| "in force".to_owned());
        let row = rows.iter().find(|row| row.starts_with(&start));
        if !row.is_some_and(|row| row.contains(&format!("| {status}"))) {
            complaints.push(format!("the index does not say of {file}: {status}"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn every_path_and_name_in_the_documents_is_there() {
    let house = House::look();
    let documents = documents();
    let told = documents.iter().filter(|document| !document.is_history());
    let complaints = told.flat_map(|document| {
        let found = house.complaints(&document.text).into_iter();
        found.map(|(line, what)| format!("{}:{line}: {what}", document.name))
    });
    assert_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn every_name_on_the_map_is_somewhere_in_the_code() {
    let house = House::look();
    let mut complaints = Vec::new();
    for document in documents().iter().filter(|document| document.is_map()) {
        for (line, paragraph) in paragraphs(&document.text) {
            let spans = spans(&paragraph);
            let names = spans.iter().filter_map(|span| identifier(&span.text)).filter(|name| is_ours(name));
            let strange = names.filter_map(|name| name.into_iter().find(|part| !house.says(part)));
            complaints.extend(strange.map(|part| format!("{}:{line}: nothing is called `{part}`", document.name)));
        }
    }
    assert_none(&complaints);
}

/// A decision in force names tests beside no file: whatever has so long a name is one, or another function.
#[test]
fn every_long_name_in_a_decision_is_a_test_or_a_function() {
    let (house, mut complaints, mut found) = (House::look(), Vec::new(), 0);
    let is_decision = |document: &&Document| document.name.starts_with("docs/decisions/0") && !document.is_history();
    for document in documents().iter().filter(is_decision) {
        for (line, paragraph) in paragraphs(&document.text) {
            for span in spans(&paragraph).iter().filter(|span| is_long_name(&span.text)) {
                found += 1;
                if !house.has_function(&span.text) {
                    complaints.push(format!("{}:{line}: no function is called `{}`", document.name, span.text));
                }
            }
        }
    }
    assert!(found > 50, "only {found} were found");
    assert_none(&complaints);
}

fn is_long_name(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    plain && text.matches('_').count() >= 4
}

#[test]
fn every_invariant_names_a_test_that_holds_it() {
    let house = House::look();
    let text = document("docs/invariants.md").text;
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| invariant")).collect();
    assert!(rows.len() > 60, "only {} invariants were found", rows.len());
    let mut complaints = Vec::new();
    for row in rows {
        let (what, tests) = row.trim_end_matches(['|', ' ']).rsplit_once(" | ").unwrap();
        let spans = spans(tests);
        let named = house.names_beside_files(&spans);
        let is_otherwise_held = ["fuzz/src/targets/", "doc test of `"].iter().any(|held| tests.contains(held));
        if named.is_empty() && !is_otherwise_held {
            complaints.push(format!("no test is named for: {what}"));
        }
        for (file, name) in named {
            if !is_test(&std::fs::read_to_string(&file).unwrap(), name.last().unwrap()) {
                complaints.push(format!("`{}` has no test `{}`, for: {what}", file.display(), name.join("::")));
            }
        }
    }
    assert_none(&complaints);
}

/// Whether `name` is a function of this file that a test runner runs.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let start = [format!("fn {name}("), format!("async fn {name}(")];
    let mut found = lines.iter().enumerate().filter(|(_, line)| start.iter().any(|start| line.starts_with(start)));
    found.any(|(at, _)| {
        let before = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
        before.into_iter().any(|line| line.starts_with("#[test") || line.starts_with("#[tokio::test"))
    })
}

#[test]
fn what_is_not_there_is_noticed() {
    let house = House::look();
    let well = [
        "`org/enroll/mod.rs` `consider`, `org/ledger/` and `trials/tests/layout.rs` `crates_point_down`",
        "`org/ledger/judge.rs` `judge` beside `fold.rs` `fold`",
        "`identity/authority.rs` `Authority<Identity>::issue_svid`",
        "`node/web-1` is a principal; `wire/*.rs`; `gateway/serve.toml`; run `scripts/fuzz 30`",
        "```\nscripts/test\n```",
    ];
    let ill = [
        "`org/enrol.rs`",
        "`trials/tests/lay-out.rs`",
        "`org/enroll/mod.rs` `reconsider`",
        "`org/enroll/mod.rs` `consider`, `reconsider`",
        "`org/enroll/mod.rs` `Consider::consider`",
        "`org/lodger/`",
        "`fold.rs` stands beside nothing",
        "`wire/*.sh`",
        "see docs/nowhere.md",
        "```\nscripts/tset\n```",
        "an odd `tick",
    ];
    for text in well {
        assert_eq!(house.complaints(text), [], "{text}");
    }
    for text in ill {
        assert_eq!(house.complaints(text).len(), 1, "{text}");
    }
}
