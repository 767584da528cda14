//! Roots turn while there are several gateways: each is certified, and one that nobody heard of is named.

use serde_json::{Value, json};
use trials::place::{ended, openssl, refused, succeeded, until};

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
    let left_out = || {
        let planned = two.place.freehold(&["trust", "plan", "activate", "endpoint", "--json"]);
        let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
        plan["breaks"].as_array().unwrap().iter().any(|it| it["kind"] == "gateway" && it["name"] == "vps")
    };
    assert!(left_out());
    vps.kill();
    succeeded(&two.place.node("vps", &["gateway", "install", &two.file("vps-2.grant")], ""));
    let folder = two.place.scope("vps").join("gateway");
    let root = two.place.org().join("operator/endpoint-root-2.pem").to_string_lossy().into_owned();
    assert!(openssl(&folder, &["verify", "-CAfile", &root, "endpoint-issuer-more.pem"]).contains("OK"));
    let _vps = two.serve_vps();
    until("its new certificate is known", || !left_out());
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
}
