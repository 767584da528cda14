//! The example, and the schema for editors.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scene::{fleet, shown};
use crate::example::Setting;
use crate::source::keys::{FLEET, Section, Shape};
use crate::source::{KnownOrg, SourceFile, is_source, read, schema};

fn example(setting: &Setting) -> Vec<SourceFile> {
    setting.files()
}

fn read_example(setting: &Setting) -> String {
    let all = example(setting);
    let sources: Vec<_> = all.iter().filter(|file| is_source(&file.path)).cloned().collect();
    assert_eq!(sources.len(), 4);
    let attached = |path: &crate::stored::FileName| {
        let found = all.iter().find(|file| file.path == path.as_str());
        found.map(|file| file.bytes.clone()).ok_or_else(|| "it is not there".to_owned())
    };
    let known = KnownOrg { name: setting.org.clone(), id: setting.id };
    match read(&sources, &attached, &[known]) {
        Ok((fleet, warnings)) => {
            assert_eq!((fleet.services.len(), fleet.users.len(), fleet.classes.len()), (2, 3, 1));
            assert_eq!(fleet.every_node, ["watch".parse().unwrap()].into());
            let files = &fleet.classes[&"web".parse().unwrap()].like.policy.files;
            assert!(files[&"motd".parse().unwrap()].content.0.starts_with(b"This machine"));
            shown(&warnings)
        }
        Err(complaints) => shown(&complaints),
    }
}

#[test]
fn the_example_has_no_complaint_whoever_it_is_made_for() {
    let plain = Setting::unknown().unwrap();
    assert_eq!(read_example(&plain), "");
    for (node, operator, gateway) in [
        ("gw-1", "ann", "127.0.0.1:40001"),
        ("web-1", "bob", "[::1]:7443"),
        ("tower", "tower", "gw.example:443"),
        ("ann", "gw-1", "gw:1"),
    ] {
        let node = node.parse().unwrap();
        let setting =
            Setting { node, operator: operator.parse().unwrap(), gateway: gateway.parse().unwrap(), ..plain.clone() };
        assert_eq!(read_example(&setting), "", "{setting:?}");
    }
}

/// Each key of the table with the sections above it.
fn table(section: &Section, path: &str, found: &mut BTreeSet<String>) {
    for key in section.keys() {
        let path = format!("{path}/{}", key.name);
        let mut shape = &key.shape;
        while let Shape::Map(_, of) | Shape::MapOrNames(_, of) = shape {
            shape = of;
        }
        if let Shape::Section(below) | Shape::TextOr(_, below) = shape {
            table(below, &path, found);
        }
        found.insert(path);
    }
}

/// Each property of the schema with the properties above it.
fn properties(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        properties(below, &path, found);
        found.insert(path);
    }
    for inner in schema["anyOf"].as_array().into_iter().flatten().chain(schema.get("additionalProperties")) {
        properties(inner, path, found);
    }
}

#[test]
fn the_schema_has_each_key_that_the_reader_knows_and_no_other() {
    let (mut of_table, mut of_schema) = (BTreeSet::new(), BTreeSet::new());
    table(&FLEET, "", &mut of_table);
    properties(&schema(), "", &mut of_schema);
    assert!(of_table.len() > 60, "{}", of_table.len());
    assert_eq!(of_table, of_schema);
}

#[test]
fn the_guide_tells_of_each_key() {
    const GUIDE: &str = include_str!("../../../../../docs/guide/fleet.md");
    let mut keys = BTreeSet::new();
    table(&FLEET, "", &mut keys);
    for name in keys.iter().filter_map(|path| path.rsplit('/').next()) {
        let told = [format!("`{name}`"), format!(".{name}`"), format!("`{name}."), format!("{name}:")];
        assert!(told.iter().any(|words| GUIDE.contains(words)), "docs/guide/fleet.md says nothing about `{name}`");
    }
}

#[test]
fn the_schema_says_what_is_needed_and_what_excludes_what() {
    let schema = schema();
    let service = &schema["properties"]["services"]["additionalProperties"];
    assert_eq!(service["required"], serde_json::json!(["at", "addr"]));
    assert_eq!(service["additionalProperties"], false);
    let check = &schema["properties"]["nodes"]["additionalProperties"]["properties"]["checks"]["additionalProperties"];
    assert_eq!(check["oneOf"].as_array().unwrap().len(), 3);
    assert_eq!(check["properties"]["status"]["maximum"], 599);
}

#[test]
fn json_and_yaml_say_the_same() {
    let yaml = "org: {name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}\nusers:\n  ann:\n    roles: [operator]\n    nodes: [desk]\nnodes:\n  desk:\n";
    let json = "{\t\"org\": {\"name\": \"harbor\", \"id\": \"0101010101010101010101010101010101010101010101010101010101010101\"},\n\t\"users\": {\"ann\": {\"roles\": [\"operator\"], \"nodes\": [\"desk\"]}},\n\t\"nodes\": {\"desk\": null}}";
    let read_json = super::scene::look(&super::scene::files(&[("fleet.json", json)])).unwrap();
    assert_eq!(read_json.0, fleet(yaml));
}
