//! Roots on a stick: a rotation reaches a node that no gateway reaches.

use std::path::Path;
use std::process::{Command, Stdio};

use identity::bundle::{BundleBody, Domain};
use identity::envelope::Envelope;
use serde_json::Value;
use trials::place::{Running, output, stderr, stdout, succeeded, until};

use super::synced;
use super::trees::{OFFLINE, stick, write};
use crate::publishing::Scene;

fn trust_file(tree: &Path) -> std::path::PathBuf {
    let index: Value = serde_json::from_slice(&std::fs::read(tree.join("freehold-tree.json")).unwrap()).unwrap();
    tree.join(index["folder"].as_str().unwrap()).join("trust.json")
}

#[test]
fn a_rotation_comes_on_a_stick_and_the_gateway_is_believed_afterwards() {
    let scene = Scene::new();
    let place = &scene.place;
    let gateway: Running = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    write(&scene, &[OFFLINE, "labels: {site: attic}"]);
    let from = ["--from", &stick(&scene)];
    synced(&scene, "web-1", &from);
    // Away from here on. A new root, in use; the former is trusted no more.
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    let anyway = ["--anyway", "quay", "--anyway", "web-1", "--anyway", "web-2"];
    succeeded(&place.freehold(&[&["trust", "activate", "endpoint", "--grace", "1s"], &anyway[..]].concat()));
    write(&scene, &[OFFLINE, "labels: {site: shed}"]);
    assert_eq!(gateway.stop(), Some(0));
    let before = std::fs::read(place.scope("web-1").join("trust/endpoint.pem")).unwrap();

    // The other domain's roots in the place of these, or none: nothing is taken.
    let (file, pem) = (trust_file(&place.path("stick")), || place.scope("web-1").join("trust/endpoint.pem"));
    let whole = std::fs::read(&file).unwrap();
    let bundles: Vec<Envelope> = serde_json::from_slice(&whole).unwrap();
    let org = trials::attack::thief::Thief::of(place).known().org();
    let is_identity = |bundle: &&Envelope| bundle.peek::<BundleBody>(Some(org)).unwrap().domain == Domain::Identity;
    let identity: Vec<_> = bundles.iter().filter(is_identity).collect();
    assert!(!identity.is_empty() && identity.len() < bundles.len());
    std::fs::write(&file, serde_json::to_vec(&identity).unwrap()).unwrap();
    let told = synced(&scene, "web-1", &from);
    assert!(told["problem"].as_str().unwrap().contains("the roots in the tree are not taken"), "{told}");
    assert_eq!(std::fs::read(pem()).unwrap(), before);

    std::fs::write(&file, whole).unwrap();
    assert_eq!(synced(&scene, "web-1", &from)["problem"], Value::Null);
    let new = stdout(&place.freehold(&["trust", "show", "endpoint", "2", "--pem"]));
    assert!(std::fs::read_to_string(pem()).unwrap().contains(new.trim()));

    // The former root goes, and whoever has it alone with it: the gateway stands under the new one only.
    let _gateway = place.serve();
    let plan = place.freehold(&["trust", "plan", "retire", "endpoint", "1", "--json"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let waived =
        plan["breaks"].as_array().unwrap().iter().map(|it| format!("--waive={}", it["name"].as_str().unwrap()));
    let waived: Vec<String> = waived.collect();
    let retire = ["trust", "retire", "endpoint", "1", "--early", "--yes"].into_iter();
    succeeded(&place.freehold(&retire.chain(waived.iter().map(String::as_str)).collect::<Vec<_>>()));
    std::fs::write(place.path("new.pem"), new).unwrap();
    let url = format!("https://{}/v1/head", place.address());
    until("the gateway stands under the new root", || {
        let mut curl = Command::new("curl");
        curl.args(["-fsS", "--cacert"]).arg(place.path("new.pem")).arg(&url);
        output(curl).status.success()
    });
    let told = place.node("web-1", &["sync", "--json"], "");
    succeeded(&told);
    assert!(!stderr(&told).contains("no gateway was known by its root"), "{}", stderr(&told));
}

#[test]
fn without_a_gateway_or_a_word_for_it_new_roots_on_a_stick_go_back() {
    let scene = Scene::new();
    let place = &scene.place;
    let gateway: Running = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    let terms = "apply: {deadline: 5s}";
    write(&scene, &[terms]);
    synced(&scene, "web-1", &[]);
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    succeeded(&place.freehold(&["publish", "--yes", "--no-wait", "--to", "stick"]));
    assert_eq!(gateway.stop(), Some(0));
    let pem = place.scope("web-1").join("trust/endpoint.pem");
    let before = std::fs::read(&pem).unwrap();
    let (from, every) = (stick(&scene), "1s");
    let mut command = place.node_command("web-1", &["run", "--from", &from, "--every", every]);
    let _agent = Running(command.stderr(Stdio::null()).spawn().unwrap());
    until("it has tried the new root", || std::fs::read(&pem).unwrap() != before);
    until("it went back", || std::fs::read(&pem).unwrap() == before);
    let why = std::fs::read_to_string(place.scope("web-1").join("trust/endpoint/trial.json")).unwrap();
    assert!(why.contains("cannot reach the gateway"), "{why}");
}
