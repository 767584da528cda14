//! A gateway that was off while a root was replaced: it comes back by itself, and issues under the new one.

use trials::place::{ended, openssl, stderr, stdout, succeeded, text, until};

use super::{is, states};
use crate::gateways::Two;

/// The second gateway is off while a root is replaced, and then on again.
fn replaced_while_away(domain: &str) {
    let (two, _laptop, vps) = Two::serving();
    two.settle();
    let (operator, place) = (two.place.org().join("operator"), &two.place);
    until("the first has heard of the spare keys of the second", || {
        // Whoever has told no spare key is named by the plan.
        let told = place.freehold(&["rotate", domain, "--compromised", "--confirm", "nobody"]);
        !stderr(&told).contains("told no spare key")
    });
    let gateway = place.scope("vps").join("gateway");
    let key = format!("{domain}-issuer.key");
    let before = std::fs::read(gateway.join(&key)).unwrap();
    vps.kill();
    let plan = |words: &[&str]| {
        let told = place.freehold(&[&["rotate", domain, "--compromised", "--confirm", "nobody"], words].concat());
        stderr(&told)
    };
    assert!(plan(&[]).contains("`vps` cannot be asked for a new one now: its spare key lies there since"));
    let left_out = plan(&["--without", "vps"]);
    assert!(left_out.contains("`vps` cannot issue any more") && !left_out.contains("lies there since"), "{left_out}");
    let done = place.freehold(&["rotate", domain, "--compromised", "--confirm", "harbor", "--no-wait"]);
    ended(&done, 5, "they come back by themselves");
    is(&states(place, domain), &[(1, "retired"), (2, "active")]);

    let _vps = two.serve_vps();
    two.settle();
    until("it issues with its spare key", || std::fs::read(gateway.join(&key)).unwrap() != before);
    let root = operator.join(format!("{domain}-root-2.pem")).to_string_lossy().into_owned();
    let shown = openssl(&gateway, &["verify", "-CAfile", &root, &format!("{domain}-issuer.pem")]);
    assert!(shown.contains("OK"), "{shown}");
    for (node, at) in [("here", place.address()), ("there", two.address())] {
        let invite = two.at(&at, &["invite", "create", "--name", node]);
        succeeded(&place.join(node, &text(&invite, "code")));
    }
    two.settle();
    let listed = place.freehold(&["gateway", "list"]);
    succeeded(&listed);
    assert!(stdout(&listed).contains("exchanging"), "{}", stdout(&listed));
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn whoever_copied_the_disks_of_the_gateways_has_none_of_the_keys_that_are_used_next() {
    let (two, _laptop, _vps) = Two::serving();
    two.settle();
    let place = &two.place;
    let folders = [place.org().join("gateway"), place.scope("vps").join("gateway")];
    let (key, spare) = ("identity-issuer.key", "identity-issuer.spare.key");
    until("the spare keys lie ready", || folders.iter().all(|folder| folder.join(spare).exists()));
    let stolen = folders.clone().map(|folder| [key, spare].map(|file| std::fs::read(folder.join(file)).unwrap()));
    succeeded(&place.freehold(&["rotate", "identity", "--compromised", "--confirm", "harbor"]));
    for (folder, stolen) in folders.iter().zip(&stolen) {
        let used = || std::fs::read(folder.join(key)).unwrap();
        until("it issues with another key", || used() != stolen[0]);
        assert!(used() != stolen[1], "the thief has it: {}", folder.display());
    }
    two.settle();
    for (node, at) in [("here", place.address()), ("there", two.address())] {
        let invite = two.at(&at, &["invite", "create", "--name", node]);
        succeeded(&place.join(node, &text(&invite, "code")));
    }
}

#[test]
fn a_gateway_that_was_off_while_the_identity_root_was_stolen_comes_back_by_itself() {
    replaced_while_away("identity");
}

#[test]
fn a_gateway_that_was_off_while_the_endpoint_root_was_stolen_comes_back_by_itself() {
    replaced_while_away("endpoint");
}

#[test]
fn a_gateway_that_was_off_during_a_whole_rotation_comes_back_by_itself() {
    let (two, _laptop, vps) = Two::serving();
    two.settle();
    let place = &two.place;
    vps.kill();
    succeeded(&place.freehold(&["rotate", "identity", "--anyway", "vps"]));
    let retired = place.freehold(&["trust", "retire", "identity", "1", "--early", "--waive", "vps", "--yes"]);
    succeeded(&retired);
    is(&states(place, "identity"), &[(1, "retired"), (2, "active")]);
    let _vps = two.serve_vps();
    two.settle();
    for (node, at) in [("here", place.address()), ("there", two.address())] {
        let invite = two.at(&at, &["invite", "create", "--name", node]);
        succeeded(&place.join(node, &text(&invite, "code")));
    }
}
