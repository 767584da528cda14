//! A second machine becomes a gateway: keys made there, mandate signed here.

use trials::place::{below, mode, refused, stderr, stdout, succeeded, text, until};

use super::Two;

#[test]
fn a_member_becomes_a_gateway_and_both_serve_what_either_decides() {
    let (two, _laptop, _vps) = Two::serving();
    let (a, b) = (two.place.address(), two.address());
    for (gateway, node) in [(&a, "from-a"), (&b, "from-b")] {
        let invite = two.at(gateway, &["invite", "create", "--name", node]);
        succeeded(&two.place.join(node, &text(&invite, "code")));
    }
    two.settle();
    for gateway in [&a, &b] {
        for node in ["laptop", "vps", "from-a", "from-b"] {
            assert_eq!(two.state_at(gateway, node).as_deref(), Some("member"), "{node} at {gateway}");
        }
    }
    // What is revoked at one is gone at the other.
    succeeded(&two.place.freehold(&["node", "revoke", "from-a", "--yes", "--gateway", &b]));
    until("it is revoked everywhere", || two.state_at(&a, "from-a").as_deref() == Some("revoked"));
    let listed = two.at(&a, &["gateway", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed[0]["gateway"], "laptop");
    assert_eq!(listed[1]["addresses"][0], b.as_str());
}

#[test]
fn no_operators_key_and_no_secret_of_the_gateway_leaves_its_machine() {
    let (two, _laptop) = Two::joined();
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.install();
    let gateway = two.place.scope("vps").join("gateway");
    for key in ["voice.key", "identity-issuer.key", "endpoint-issuer.key"] {
        assert_eq!(mode(&gateway.join(key)), 0o600, "{key}");
    }
    let names: Vec<_> = below(&two.place.root("vps")).iter().map(|path| path.display().to_string()).collect();
    assert!(!names.iter().any(|name| name.contains("root.key") || name.contains("signers/")), "{names:?}");
    let voice = std::fs::read(gateway.join("voice.key")).unwrap();
    for file in ["vps.request", "vps.grant"] {
        let text = std::fs::read_to_string(two.place.path(file)).unwrap();
        assert!(!text.contains("PRIVATE KEY"), "{file}");
        assert!(!text.contains(&identity::text::base64(&voice)), "{file}");
    }
}

/// Its agent is inside, and none runs beside it.
#[test]
fn who_asks_for_a_gateways_agent_is_told_what_has_it() {
    let (two, _laptop) = Two::joined();
    let start = || stdout(&two.place.node("vps", &["status"], ""));
    assert!(start().contains("start it: freehold-node run --root "), "{}", start());
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.install();
    assert!(start().contains("start it: freehold-node gateway serve --root "), "{}", start());
    let told = two.place.node("vps", &["port"], "");
    assert!(stderr(&told).contains("start it: freehold-node gateway serve"), "{}", stderr(&told));
}

#[test]
fn only_a_member_by_its_own_key_is_made_a_gateway() {
    let (two, _laptop) = Two::joined();
    two.request();
    let add = |file: &str| two.place.freehold(&["gateway", "add", file, "--out", "out.grant", "--yes"]);
    // Another machine's request under this machine's name: its signature is over other words.
    let request = std::fs::read_to_string(two.place.path("vps.request")).unwrap();
    std::fs::write(two.place.path("bent.request"), request.replacen("\"sig\": \"", "\"sig\": \"A", 1)).unwrap();
    assert!(!add("bent.request").status.success());
    assert!(!two.place.path("out.grant").exists());
    // Asked, and revoked before it was answered.
    succeeded(&two.place.freehold(&["node", "revoke", "vps", "--yes"]));
    let told = add("vps.request");
    assert!(!told.status.success() && stderr(&told).contains("revoked"), "{}", stderr(&told));
    assert!(!two.place.path("out.grant").exists());
}

#[test]
fn a_grant_is_of_use_to_the_machine_that_asked_alone() {
    let (two, _laptop) = Two::joined();
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.place.joined("other");
    let (file, grant) = (two.file("other.request"), two.file("vps.grant"));
    succeeded(&two.place.node("other", &["gateway", "request", "--address", "127.0.0.1:1", "--out", &file], ""));
    refused(&two.place.node("other", &["gateway", "install", &grant], ""), "for another machine");
    // Without a mandate it serves nobody.
    let nothing = two.place.node("other", &["gateway", "serve"], "");
    assert!(!nothing.status.success() && stderr(&nothing).contains("no gateway"), "{}", stderr(&nothing));
}
