//! What each layer says: its own words, and the facts of both sides.

use super::*;

/// One layer that refuses, and what must stand in its words.
fn check(found: &Untrusted, words: &[&str], seen: &mut Vec<String>) {
    let told = found.to_string();
    for word in words {
        assert!(told.contains(word), "`{word}` is missing: {told}");
    }
    let opening = words[0].to_owned();
    assert!(!seen.contains(&opening), "two layers say the same: {opening}");
    seen.push(opening);
}

#[test]
fn each_layer_has_words_of_its_own_that_name_both_sides() {
    let (mut scene, other) = (Scene::new(), Scene::new());
    let mut seen = Vec::new();
    let print = |root: &CertificateDer<'_>| Fingerprint::of_certificate(root.as_ref()).to_string();
    let binding = scene.bind(&principal(WEB), "web-1");
    let good = scene.bound(&binding);
    let issuer = scene.identity.issuer.key_id();

    // The endpoint.
    let request = read_request(&make_request(&scene.svid_key).unwrap()).unwrap();
    let leaf = scene.endpoint.issuer.issue_endpoint(&[host("gw.example")], &request, SERIAL, days(1)).unwrap();
    let mut chain = scene.endpoint.chain(leaf);
    chain.push(scene.endpoint.root.certificate().clone());
    let trusted = Roots::<Endpoint>::numbered([(7, other.endpoint.root.certificate().clone())]);
    let found = check_endpoint(&chain, &trusted, &host("gw.example"), NOW).unwrap_err();
    let (shown, here) = (print(scene.endpoint.root.certificate()), print(other.endpoint.root.certificate()));
    check(&found, &["the gateway's certificate does not lead", &shown, &format!("version 7 ({here})")], &mut seen);
    let late = days(1).not_after + Seconds(9);
    let found = check_endpoint(&chain, &scene.endpoint.roots(), &host("gw.example"), late).unwrap_err();
    let (until, now) = (days(1).not_after.to_string(), late.to_string());
    check(&found, &["the gateway's certificate expired", &until, &now], &mut seen);
    let found = check_endpoint(&chain, &scene.endpoint.roots(), &host("other.example"), NOW).unwrap_err();
    check(&found, &["is not for `other.example`", "but for `gw.example`"], &mut seen);

    // The issuer.
    let mandates = std::mem::take(&mut scene.head.mandates);
    let found = scene.believed(&good, NOW).unwrap_err();
    check(
        &found,
        &["no mandate in the head names the issuing key", &issuer.to_string(), "head 1 names none"],
        &mut seen,
    );
    scene.head.mandates = mandates;
    let kept = scene.head.mandates[0].identity_issuer;
    scene.head.mandates[0].identity_issuer = KeyId([3; 32]);
    let both = scene.believed(&good, NOW).unwrap_err().to_string();
    assert!(both.contains(&format!("{} of `gw-1`", KeyId([3; 32]))), "{both}");
    scene.head.mandates[0].identity_issuer = kept;

    // The identity.
    let strange = other.bound(&other.bind(&principal(WEB), "web-1"));
    let found = scene.believed(&strange, NOW).unwrap_err();
    let (theirs, ours) = (other.identity.issuer.key_id(), print(scene.identity.root.certificate()));
    check(&found, &["the SVID does not lead", &theirs.to_string(), &ours], &mut seen);
    let led = found.leading_to(vec![NamedRoot { version: Some(3), fingerprint: Fingerprint([5; 32]) }]);
    assert!(led.to_string().contains(&format!("version 3 ({})", Fingerprint([5; 32]))), "{led}");
    let unbound = scene.twisted(WEB, |draft| draft.custom_extensions.clear());
    check(&scene.believed(&unbound, NOW).unwrap_err(), &["carries no binding", WEB], &mut seen);
    scene.head.revocations.node_keys.insert(scene.node_key.public().digest());
    let key = scene.node_key.public().digest().to_string();
    check(&scene.believed(&good, NOW).unwrap_err(), &["it was revoked", &key, "head 1"], &mut seen);
    scene.head.revocations = Revocations::default();
    check(&scene.believed(&good, late).unwrap_err(), &["the SVID expired", &until, &now], &mut seen);
    let early = days(1).not_before - Seconds(9);
    let (from, now) = (days(1).not_before.to_string(), early.to_string());
    check(&scene.believed(&good, early).unwrap_err(), &["the SVID is valid only from", &from, &now], &mut seen);
    assert_eq!(seen.len(), 9);
}

#[test]
fn an_issuing_certificate_that_is_over_is_told_from_a_leaf_that_is() {
    let scene = Scene::new();
    let (org, gateway) = ("harbor".parse().unwrap(), node("gw-1"));
    let brief =
        scene.identity.root.certify_issuer(&org, &gateway, &scene.identity.issuer_key, SERIAL, days(1)).unwrap();
    let request = read_request(&make_request(&scene.svid_key).unwrap()).unwrap();
    let binding = scene.bind(&principal(WEB), "web-1");
    let leaf = brief.issue_svid(&principal(WEB), &request, &binding, SERIAL, days(2)).unwrap();
    let chain = [leaf, brief.certificate().clone()];
    let now = days(1).not_after + Seconds(1);
    let expected = Untrusted::Expired { of: Of::Issuer, until: days(1).not_after, now };
    assert_eq!(scene.believed(&chain, now), Err(expected));
}
