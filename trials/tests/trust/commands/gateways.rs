//! Roots turn while there are several gateways: each is certified, and one that nobody heard of is named.

use serde_json::{Value, json};
use trials::place::{ended, openssl, refused, stderr, stdout, succeeded, text, until};

use super::{is, states};
use crate::gateways::Two;

#[test]
fn a_gateway_that_never_told_its_keys_holds_a_new_root_back_until_it_is_left_out() {
    let (two, _laptop) = Two::joined();
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    let told = two.place.freehold(&["trust", "publish", "endpoint"]);
    refused(&told, "have not told their issuing keys: `vps`");
    refused(&told, "--without NAME");
    is(&states(&two.place, "endpoint"), &[(1, "active")]);
    // Nobody else is left out: neither who can be certified, nor who is not there.
    let without =
        |name: &str| two.place.freehold(&["trust", "publish", "endpoint", "--without", "vps", "--without", name]);
    refused(&without("laptop"), "the issuing keys of `laptop` are known");
    refused(&without("vsp"), "no gateway with a mandate is called `vsp`");
    refused(
        &two.place.freehold(&["rotate", "endpoint", "--without", "laptop"]),
        "the issuing keys of `laptop` are known",
    );
    is(&states(&two.place, "endpoint"), &[(1, "active")]);
    succeeded(&two.place.freehold(&["trust", "publish", "endpoint", "--without", "vps"]));
    is(&states(&two.place, "endpoint"), &[(1, "active"), (2, "staged")]);
    assert!(!two.place.org().join("operator/endpoint-root-3.key").exists(), "the refused one drew the root already");

    // Renewed, it is certified under the root that came without it.
    two.install();
    let vps = two.serve_vps();
    two.settle();
    let renew = |file: &str| two.place.facts(&["gateway", "renew", "vps", "--out", &two.file(file)]);
    let mut renewed = Value::Null;
    until("its keys are known", || {
        renewed = renew("vps-2.grant");
        renewed["unknown"] == false
    });
    assert_eq!((&renewed["certified"], &renewed["uncertified"]), (&json!(["endpoint 2"]), &json!([])), "{renewed}");
    // Asked at the gateway itself, which knows at once.
    let left_out = || {
        let planned =
            two.place.freehold(&["trust", "plan", "activate", "endpoint", "--json", "--gateway", &two.address()]);
        let plan: Value = serde_json::from_slice(&planned.stdout).ok()?;
        Some(plan["breaks"].as_array()?.iter().any(|it| it["kind"] == "gateway" && it["name"] == "vps"))
    };
    until("it has heard of the renewal", || left_out() == Some(true));
    succeeded(&two.place.node("vps", &["gateway", "install", &two.file("vps-2.grant")], ""));
    vps.kill();
    let folder = two.place.scope("vps").join("gateway");
    let root = two.place.org().join("operator/endpoint-root-2.pem").to_string_lossy().into_owned();
    assert!(openssl(&folder, &["verify", "-CAfile", &root, "endpoint-issuer-more.pem"]).contains("OK"));
    let _vps = two.serve_vps();
    until("its new certificate is known", || left_out() == Some(false));
    ended(&two.place.freehold(&["gateway", "renew", "vsp"]), 1, "see which there are: freehold gateway list");
    let again = renew("vps-3.grant");
    assert_eq!(again["uncertified"], json!([]), "{again}");
}

#[test]
fn a_gateway_that_comes_while_roots_change_is_certified_under_each() {
    let (two, _laptop) = Two::joined();
    let operator = two.place.org().join("operator");
    let agent = two.place.agent("vps");
    succeeded(&two.place.freehold(&["rotate", "endpoint"]));
    agent.kill();
    succeeded(&two.place.freehold(&["trust", "publish", "identity"]));
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.install();
    let folder = two.place.scope("vps").join("gateway");
    let leads = |root: &str, issuer: &str| {
        let root = operator.join(root).to_string_lossy().into_owned();
        openssl(&folder, &["verify", "-CAfile", &root, issuer])
    };
    // In use first, the others beside it.
    assert!(leads("endpoint-root-2.pem", "endpoint-issuer.pem").contains("OK"));
    assert!(leads("endpoint-root.pem", "endpoint-issuer-more.pem").contains("OK"));
    assert!(leads("identity-root.pem", "identity-issuer.pem").contains("OK"));
    assert!(leads("identity-root-2.pem", "identity-issuer-more.pem").contains("OK"));
    let _vps = two.serve_vps();
    // And whoever asks is told so.
    let broken = |words: &[&str]| -> Vec<String> {
        let told = two.place.freehold(&[&["trust", "plan"], words, &["--json"]].concat());
        let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
        let gateways = plan["breaks"].as_array().unwrap().iter().filter(|it| it["kind"] == "gateway");
        gateways.map(|it| text(it, "name")).collect()
    };
    for words in [&["activate", "identity"][..], &["retire", "endpoint", "1"]] {
        until("it has told what it has", || broken(words).is_empty());
    }
}

#[test]
fn a_gateway_without_a_certificate_under_the_staged_root_holds_it_back_until_it_is_left_out() {
    let (two, _laptop) = Two::joined();
    let operator = two.place.org().join("operator");
    succeeded(&two.place.freehold(&["trust", "publish", "endpoint"]));
    // The key of that root is another operator's.
    for name in ["endpoint-root-2.key", "endpoint-root-2.pem"] {
        std::fs::rename(operator.join(name), two.place.path(name)).unwrap();
    }
    two.request();
    let added = two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]);
    succeeded(&added);
    let warning = "warning: version 2 of the `endpoint` roots is trusted (staged), and the key of its root is not here";
    assert!(stderr(&added).contains(warning), "{}", stderr(&added));
    two.install();
    let _vps = two.serve_vps();
    two.settle();
    let activate = |more: &[&str]| {
        let words = ["trust", "activate", "endpoint", "--anyway", "laptop", "--anyway", "vps"];
        two.place.freehold(&[&words, more].concat())
    };
    let told = activate(&[]);
    refused(&told, "no certificate under version 2 is known of these gateways' issuing keys: `vps`");
    refused(&told, "--without NAME");
    is(&states(&two.place, "endpoint"), &[(1, "active"), (2, "staged")]);
    let plan = two.place.freehold(&["trust", "plan", "activate", "endpoint"]);
    assert!(stdout(&plan).contains("freehold trust activate endpoint") && stdout(&plan).contains("--without vps"));
    succeeded(&activate(&["--without", "vps"]));
    is(&states(&two.place, "endpoint"), &[(1, "grace"), (2, "active")]);
    let waived = super::told(&two.place, "endpoint").last().unwrap()["waived"].clone();
    assert!(waived.as_array().unwrap().contains(&"gateway vps".into()), "{waived}");
}
