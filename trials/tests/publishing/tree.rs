//! A static tree, written by the operator's tool and read as a node would.

use std::convert::Infallible;

use identity::id::Digest;
use manifest::stored::Manifest;
use trials::place::{Place, below, ended, json, succeeded};
use wire::known::{Known, KnownFile};
use wire::tree::{FromTree, Reader};

use super::{Scene, wiki_on};

/// What a real node's folder can make of the files.
fn read(place: &Place, node: &str, tree: &str) -> FromTree {
    let scope = place.scope(node);
    let file: KnownFile = serde_json::from_slice(&std::fs::read(scope.join("known.json")).unwrap()).unwrap();
    let known = Known::from_file(file).unwrap();
    let secret: [u8; 32] = std::fs::read(scope.join("seal.key")).unwrap().try_into().unwrap();
    let shown = place.facts(&["node", "show", node]);
    let key: identity::key::PublicKey = shown["node_key"].as_str().unwrap().parse().unwrap();
    let name = node.parse().unwrap();
    let reader = Reader { known: &known, name: &name, node_key: key.digest(), seal_secret: &secret };
    let get = |path: &str| Ok::<_, Infallible>(std::fs::read(place.path(tree).join(path)).ok());
    reader.read(ground::clock::now(), get).unwrap()
}

#[test]
fn a_tree_holds_what_each_node_needs_and_tells_nobody_else() {
    let scene = Scene::new();
    let gateway = scene.place.serve();
    scene.place.joined("web-1");
    scene.place.joined("web-2");
    scene.declare(&wiki_on("web-1"));
    let told = scene.place.facts(&["publish", "--yes", "--no-wait", "--to", "tree"]);
    let first = read(&scene.place, "web-1", "tree");
    assert_eq!(Some(first.known.head.head.version), told["head"].as_u64());
    assert_eq!(first.trust.len(), 2, "both domains");
    let listed = first.listed.unwrap();
    let manifest = Manifest::read(&listed.manifest, listed.digest).unwrap();
    assert!(manifest.runs.services.keys().any(|name| name.as_str() == "wiki"));
    let other = read(&scene.place, "web-2", "tree").listed.unwrap();
    assert_ne!(other.digest, listed.digest);
    for file in below(&scene.place.path("tree")).into_iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        let leaks = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        assert!(!leaks("web-1") && !leaks("web-2") && !leaks("wiki"), "{}", file.display());
    }

    // Nothing changed: the same head is written again, without a gateway that serves, and nothing is signed.
    drop(gateway);
    let again = json(&scene.place.freehold(&["publish", "--yes", "--to", "usb", "--json"]));
    assert_eq!((&again["published"], &again["head"]), (&false.into(), &told["head"]));
    assert_eq!(read(&scene.place, "web-1", "usb").known.head.digest, first.known.head.digest);
    let _: Digest = listed.digest;
    // A folder with something else in it is not overwritten.
    std::fs::create_dir(scene.place.path("mine")).unwrap();
    std::fs::write(scene.place.path("mine/letter"), "dear").unwrap();
    ended(&scene.place.freehold(&["publish", "--yes", "--to", "mine"]), 1, "holds something else");
    // One of ours is, whole.
    scene.declare(&wiki_on("web-1").replace("8080", "9090"));
    succeeded(&scene.place.freehold(&["publish", "--yes", "--no-wait", "--to", "tree"]));
    assert!(read(&scene.place, "web-1", "tree").known.head.head.version > first.known.head.head.version);
}
