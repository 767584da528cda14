//! The documents tell the truth: what they link to, name or promise is there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::layout::{below, root, sources};

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut documents = vec![root().join("README.md"), root().join("ARCHITECTURE.md"), root().join("CHANGELOG.md")];
    documents.extend(below(&root().join("docs"), "md"));
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            let path = document.parent().unwrap().join(target);
            assert!(path.exists(), "`{}` links to `{target}`, which is not there", document.display());
        }
    }
}

#[test]
fn the_guide_names_every_refusal() {
    let source = std::fs::read_to_string(root().join("crates/org/src/refusal.rs")).unwrap();
    let guide = std::fs::read_to_string(root().join("docs/guide/joining-fails.md")).unwrap();
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
fn files_that_the_map_names_are_there() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let quoted = map.split('`').skip(1).step_by(2).map(Path::new);
    let named = quoted.filter(|name| name.extension().is_some_and(|ending| ending == "rs"));
    let named: BTreeSet<&Path> = named.filter(|name| !name.to_string_lossy().contains(['*', ' '])).collect();
    assert!(named.len() > 20, "the map names only {} files", named.len());
    let mut there = sources(&root().join("crates"));
    there.extend(sources(&root().join("trials")));
    // `src` is left out of the map; paths may begin at any folder.
    let shortened = |path: &Path| path.iter().filter(|part| *part != "src").collect::<std::path::PathBuf>();
    let there: Vec<_> = there.iter().map(|path| shortened(path)).collect();
    for name in named {
        assert!(there.iter().any(|path| path.ends_with(name)), "ARCHITECTURE.md names `{}`: not there", name.display());
    }
}
