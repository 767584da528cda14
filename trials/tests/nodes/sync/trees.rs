//! A static tree on a stick: taken as if a gateway had said it, and nothing in it is believed for where it lies.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trials::place::{Running, as_fact, succeeded};

use super::{machine, not_synced, synced};
use crate::publishing::Scene;

pub const OFFLINE: &str = "apply: {confirm: offline, deadline: 3s}";

/// An org whose node has a tree, and no gateway any more.
fn away(lines: &[&str]) -> Scene {
    let scene = Scene::new();
    let gateway: Running = scene.place.serve();
    scene.place.joined("web-1");
    scene.place.joined("web-2");
    write(&scene, lines);
    drop(gateway);
    scene
}

/// The next tree, in the folder `stick`.
pub fn write(scene: &Scene, lines: &[&str]) {
    scene.declare(&format!("{}\n  web-2:\n    labels: {{for: web-2}}", machine("web-1", lines)));
    succeeded(&scene.place.freehold(&["publish", "--yes", "--no-wait", "--to", "stick"]));
}

pub fn stick(scene: &Scene) -> String {
    scene.place.path("stick").to_string_lossy().into_owned()
}

/// The folder in the tree that its index names.
fn inner(tree: &Path) -> PathBuf {
    let index: Value = serde_json::from_slice(&std::fs::read(tree.join("freehold-tree.json")).unwrap()).unwrap();
    tree.join(index["folder"].as_str().unwrap())
}

fn own_box(scene: &Scene, node: &str) -> PathBuf {
    let key = scene.place.facts(&["node", "show", node])["node_key"].as_str().unwrap().to_owned();
    let key: identity::key::PublicKey = key.parse().unwrap();
    inner(&scene.place.path("stick")).join(format!("nodes/{}.box", key.digest()))
}

#[test]
fn a_node_without_a_gateway_takes_confirms_and_goes_back() {
    let scene = away(&[OFFLINE, "labels: {site: attic}", "files: {motd: {content: hello}}"]);
    let from = ["--from", &stick(&scene)];
    let look = synced(&scene, "web-1", &[&["--dry-run"], &from[..]].concat());
    assert_eq!((&look["outcome"], &look["trial"]["confirm"]), (&"on_trial".into(), &"offline".into()), "{look}");
    let good = synced(&scene, "web-1", &from);
    assert_eq!((&good["outcome"], &good["manifest"]), (&"settled".into(), &look["manifest"]), "{good}");
    let delivered = scene.place.scope("web-1").join("state/current/files/motd");
    assert_eq!(std::fs::read_to_string(&delivered).unwrap(), "hello");

    write(&scene, &[OFFLINE, "checks: {never: {command: [/bin/false], timeout: 1s}}"]);
    let (back, why) = not_synced(&scene, "web-1", &from, 4);
    assert!(why.contains("never"), "{why}");
    assert_eq!(back["manifest"], good["manifest"]);
    assert_eq!(std::fs::read_to_string(&delivered).unwrap(), "hello");

    // What only a gateway confirms, a stick does not, and it is said at once.
    write(&scene, &["apply: {deadline: 3s}", "labels: {site: cellar}"]);
    let (back, why) = not_synced(&scene, "web-1", &from, 4);
    assert!(why.contains("a tree alone cannot confirm this"), "{why}");
    assert!(back["rolled_back"]["why"].as_str().unwrap().contains("a connection to a gateway"), "{back}");
}

#[test]
fn every_way_to_tamper_with_a_tree_is_refused_in_its_own_words() {
    let scene = away(&[OFFLINE, "labels: {site: attic}"]);
    let (tree, spare) = (scene.place.path("stick"), scene.place.path("spare"));
    let path = stick(&scene);
    let from = ["--from", path.as_str()];
    synced(&scene, "web-1", &from);
    let settled = scene.place.status("web-1")["applied"].clone();
    scene.place.copy(&tree, &scene.place.path("older"));
    write(&scene, &[OFFLINE, "labels: {site: shed}"]);
    scene.place.copy(&tree, &spare);

    let refused = |tamper: &dyn Fn(&Path), words: &str| {
        tamper(&inner(&tree));
        let (_, why) = not_synced(&scene, "web-1", &from, 3);
        assert!(why.contains(words), "`{words}` in {why}");
        let shown = scene.place.status("web-1");
        assert!(shown["refused"]["why"].as_str().unwrap().contains(&as_fact(words)), "`{words}` in {shown}");
        assert_eq!(shown["applied"], settled);
        std::fs::remove_dir_all(&tree).unwrap();
        scene.place.copy(&spare, &tree);
    };
    let mine = own_box(&scene, "web-1").strip_prefix(inner(&tree)).unwrap().to_owned();
    let other = own_box(&scene, "web-2").strip_prefix(inner(&tree)).unwrap().to_owned();
    let edit = |path: PathBuf, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        std::fs::write(&path, change(std::fs::read(&path).unwrap())).unwrap();
    };
    let strip = |bytes: Vec<u8>| {
        let mut head: Value = serde_json::from_slice(&bytes).unwrap();
        head["signatures"] = Value::Array(Vec::new());
        serde_json::to_vec(&head).unwrap()
    };
    refused(&|inner| edit(inner.join("head.json"), &strip), "signature");
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    refused(&|inner| edit(inner.join("head.json"), &cut), "head.json` of the tree cannot be read");
    refused(&|inner| std::fs::remove_file(inner.join("signers.json")).unwrap(), "was not copied whole");
    let newer = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.replace("\"freehold_tree\": 1", "\"freehold_tree\": 2").into_bytes()
    };
    refused(&|_| edit(tree.join("freehold-tree.json"), &newer), "layout 2");
    // Authority is taken whatever the rest says; from here on the new head is known, and an older one is refused.
    let swap = |inner: &Path| assert!(std::fs::copy(inner.join(&other), inner.join(&mine)).unwrap() > 0);
    refused(&swap, "does not open");
    refused(&|inner| edit(inner.join(&mine), &cut), "does not open");
    let flip = |mut bytes: Vec<u8>| {
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    refused(&|inner| edit(inner.join(&mine), &flip), "does not open");
    let aside = |_: &Path| {
        std::fs::remove_dir_all(&tree).unwrap();
        scene.place.copy(&scene.place.path("older"), &tree);
    };
    refused(&aside, "knows less than this machine");

    // A tree of another org, and a place without one.
    let stranger = Scene::new();
    stranger.declare(&machine("web-1", &[OFFLINE]));
    succeeded(&stranger.place.freehold(&["publish", "--yes", "--to", "stick"]));
    let (_, why) = not_synced(&scene, "web-1", &["--from", &stick(&stranger)], 3);
    assert!(why.contains("of another org"), "{why}");
    let nowhere = scene.place.path("nowhere").to_string_lossy().into_owned();
    assert!(not_synced(&scene, "web-1", &["--from", &nowhere], 1).1.contains("there is no tree"));

    // Whole again, it is taken, and the refusal is forgotten.
    assert_eq!(synced(&scene, "web-1", &from)["outcome"], "settled");
    assert_eq!(scene.place.status("web-1")["refused"], Value::Null);
}
