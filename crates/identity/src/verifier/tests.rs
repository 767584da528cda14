//! Each layer of the verifier, broken alone.

use std::collections::BTreeSet;

use scene::{Branch, NOW, ORG, SERIAL, Scene, WEB, days, host, node, p256, principal};

use super::*;
use crate::certificate::binding::{Binding, BindingTerms};
use crate::certificate::{Validity, draft_svid, key_id, make_request, read_request};
use crate::id::Digest;
use crate::key::{EdKey, P256Key, Sign as _};
use crate::principal::PrincipalKind;
use crate::time::Seconds;

pub(crate) mod scene;
mod hostile;
mod words;
mod rotate;

#[test]
fn an_svid_with_every_layer_whole_is_believed() {
    let scene = Scene::new();
    let chain = scene.bound(&scene.bind(&principal(WEB), "web-1"));
    let expected = BelievedSvid {
        principal: principal(WEB),
        node: node("web-1"),
        node_key: scene.node_key.public(),
        serial: SERIAL,
        not_after: NOW + Seconds::DAY,
        issued_by: node("gw-1"),
    };
    assert_eq!(scene.believed(&chain, NOW), Ok(expected));
    let user = scene.believed(&scene.twisted("spiffe://harbor/user/ann", |_| {}), NOW).unwrap();
    assert_eq!((user.principal.kind(), user.node), (PrincipalKind::User, node("web-1")));
}

#[test]
fn only_leaf_issuing_key_and_trusted_root_make_a_chain() {
    let (scene, other) = (Scene::new(), Scene::new());
    let binding = scene.bind(&principal(WEB), "web-1");
    let good = scene.bound(&binding);
    let draft = draft_svid(&principal(WEB), &binding, SERIAL, days(1)).unwrap();
    let by_root = scene.signed(&draft, (&scene.identity.root, &scene.identity.root_key));
    let (issuer, root) = (scene.identity.issuer.certificate().clone(), scene.identity.root.certificate().clone());

    // The same names and serials under another root: only the keys differ.
    let unknown = |shown: &Scene| {
        let unrooted = Unrooted {
            shown: Vec::new(),
            issuers: vec![shown.identity.issuer.key_id()],
            trusted: scene.identity.roots().named(),
        };
        Untrusted::UnknownIdentityRoot(Box::new(unrooted))
    };
    scene.check(&other.bound(&binding), &unknown(&other), "another org's root");
    let mixed = [good[0].clone(), other.identity.issuer.certificate().clone()];
    scene.check(&mixed, &unknown(&other), "another root's issuing certificate");
    let direct = Untrusted::NotByAnIssuer;
    scene.check(std::slice::from_ref(&by_root), &direct, "by the root, alone");
    scene.check(&[by_root.clone(), root], &direct, "by the root, with the root");
    scene.check(&[by_root, issuer.clone()], &direct, "by the root, with an issuing certificate");
    scene.check(&good[..1], &direct, "a leaf alone");
    scene.check(&[], &direct, "nothing");
    scene.check(&[CertificateDer::from(vec![0x30, 0]), issuer], &Untrusted::Malformed, "not a certificate");
}

#[test]
fn an_issuing_key_counts_only_by_its_active_mandate() {
    let mut scene = Scene::new();
    let issuer = scene.identity.issuer.key_id();
    let unmandated = |mandated: &[KeyId]| {
        let mandated = mandated.iter().map(|key| (node("gw-1"), *key)).collect();
        let unmandated = Unmandated { issuer, domain: Domain::Identity, head: 1, mandated };
        Err(Untrusted::UnmandatedIssuer(Box::new(unmandated)))
    };
    let (begin, end) = (NOW - Seconds::DAY, NOW + Seconds::DAY.times(90));
    let inactive = |from, until| {
        Err(Untrusted::MandateNotActive(Box::new(Inactive { gateway: node("gw-1"), from, until, now: NOW })))
    };
    let beyond = Err(Untrusted::BeyondMandate(node("gw-1")));
    scene.check_head(|head| head.mandates.clear(), &unmandated(&[]), "no mandate");
    scene.check_head(
        |head| head.mandates[0].identity_issuer = KeyId([0; 32]),
        &unmandated(&[KeyId([0; 32])]),
        "another key",
    );
    scene.check_head(
        |head| {
            head.mandates[0].endpoint_issuer = issuer;
            head.mandates[0].identity_issuer = KeyId([0; 32]);
        },
        &unmandated(&[KeyId([0; 32])]),
        "mandated in the other domain only",
    );
    scene.check_head(|head| head.mandates[0].not_after = NOW, &inactive(begin, NOW), "expired this second");
    scene.check_head(|head| head.mandates[0].not_after = NOW + Seconds(1), &Ok(()), "one second left");
    scene.check_head(
        |head| head.mandates[0].not_before = NOW + Seconds(1),
        &inactive(NOW + Seconds(1), end),
        "begins in a second",
    );
    scene.check_head(|head| head.mandates[0].not_before = NOW, &Ok(()), "begins this second");
    scene.check_head(|head| head.mandates[0].kinds = BTreeSet::from([PrincipalKind::User]), &beyond, "users only");
    scene.check_head(|head| head.mandates[0].svid_ttl = Seconds(u64::MAX), &Ok(()), "without bound in time");
    let service = scene.twisted("spiffe://harbor/service/db", |_| {});
    scene.check(&service, &Untrusted::BeyondMandate(node("gw-1")), "a service");
}

#[test]
fn what_was_proven_ends_with_its_time_and_with_its_root() {
    let scene = Scene::new();
    let chain = scene.bound(&scene.bind(&principal(WEB), "web-1"));
    let (proven, own, others) = (scene.proven(&chain), scene.identity.roots(), Scene::new().identity.roots());
    let end = NOW + Seconds::DAY;
    let begin = proven.validity.not_before;
    assert!(scene.believed_again(&proven, &own, end).is_ok(), "its last second");
    for (roots, now, why) in [
        (&own, end + Seconds(1), Untrusted::Expired { of: Of::Svid, until: end, now: end + Seconds(1) }),
        (&own, begin - Seconds(1), Untrusted::NotYetValid { of: Of::Svid, from: begin, now: begin - Seconds(1) }),
        (&others, NOW, {
            let (shown, trusted) = (own.named(), others.named());
            let issuers = vec![scene.identity.issuer.key_id()];
            Untrusted::UnknownIdentityRoot(Box::new(Unrooted { shown, issuers, trusted }))
        }),
    ] {
        assert_eq!(scene.believed_again(&proven, roots, now), Err(why));
    }
    let both = [own.certificates(), others.certificates()].concat();
    assert!(scene.believed_again(&proven, &Roots::from_certificates(both), NOW).is_ok(), "a root more");
    let brief = ProvenSvid { issuer_until: NOW, ..proven };
    assert!(scene.believed_again(&brief, &own, NOW).is_ok());
    let over = scene.believed_again(&brief, &own, NOW + Seconds(1));
    assert_eq!(
        over,
        Err(Untrusted::Expired { of: Of::Issuer, until: NOW, now: NOW + Seconds(1) }),
        "the issuer's certificate is over"
    );
}

#[test]
fn a_binding_holds_for_one_org_principal_node_and_key() {
    let scene = Scene::new();
    let (web, db) = (principal(WEB), principal("spiffe://harbor/node/db-1"));
    let (web_1, not_after) = (node("web-1"), NOW + Seconds::DAY);
    let good = BindingTerms { org: ORG, principal: &web, node: &web_1, svid_key: scene.svid_key_id(), not_after };
    let signed = |terms: BindingTerms<'_>| terms.sign(&scene.node_key).unwrap();
    assert!(scene.believed(&scene.bound(&signed(good)), NOW).is_ok());

    let bad = Untrusted::BadBinding;
    scene.check(&scene.bound(&signed(BindingTerms { principal: &db, ..good })), &bad, "another principal");
    scene.check(&scene.bound(&signed(BindingTerms { org: OrgId([8; 32]), ..good })), &bad, "another org");
    scene.check(&scene.bound(&signed(BindingTerms { svid_key: KeyId([0; 32]), ..good })), &bad, "another SVID key");
    scene.check(
        &scene.bound(&signed(BindingTerms { node: &node("db-1"), ..good })),
        &bad,
        "a node speaks for another node",
    );

    let mut stolen = signed(good);
    stolen.node_key = p256().public();
    scene.check(&scene.bound(&stolen), &bad, "the signature of another key");
    let mut prolonged = signed(good);
    prolonged.not_after = not_after + Seconds(1);
    scene.check(&scene.bound(&prolonged), &bad, "a time that was not signed");
    let weak = good.sign(&EdKey::from_seed(&[3; 32])).unwrap();
    scene.check(&scene.bound(&weak), &bad, "a node key that is not P-256");

    let ann = principal("spiffe://harbor/user/ann");
    let mut moved = scene.bind(&ann, "web-1");
    moved.node = node("db-1");
    let chain = scene.twisted("spiffe://harbor/user/ann", |draft| {
        draft.custom_extensions =
            vec![rcgen::CustomExtension::from_oid_content(crate::certificate::binding::OID, moved.to_der())];
    });
    scene.check(&chain, &bad, "a user's binding moved to another node");
}

#[test]
fn a_leaf_without_exactly_one_readable_binding_is_refused() {
    let scene = Scene::new();
    scene.check(
        &scene.twisted(WEB, |draft| draft.custom_extensions.clear()),
        &Untrusted::NoBinding(Box::new(principal(WEB))),
        "none",
    );
    let content = |bytes: Vec<u8>| rcgen::CustomExtension::from_oid_content(crate::certificate::binding::OID, bytes);
    let garbage = scene.twisted(WEB, |draft| draft.custom_extensions = vec![content(b"\x0c\x02{}".to_vec())]);
    scene.check(&garbage, &Untrusted::Malformed, "unreadable");
    let twice = scene.twisted(WEB, |draft| {
        let other = scene.bind(&principal("spiffe://harbor/user/ann"), "web-1");
        draft.custom_extensions.push(content(other.to_der()));
    });
    scene.check(&twice, &Untrusted::Malformed, "two");
}

#[test]
fn a_leaf_outlives_neither_its_binding_nor_its_mandates_bound() {
    let scene = Scene::new();
    let (web, web_1) = (principal(WEB), node("web-1"));
    let bound_until = |not_after| {
        let terms = BindingTerms { org: ORG, principal: &web, node: &web_1, svid_key: scene.svid_key_id(), not_after };
        terms.sign(&scene.node_key).unwrap()
    };
    let (day, beyond) = (NOW + Seconds::DAY, Untrusted::BeyondMandate(node("gw-1")));
    scene.check(&scene.bound(&bound_until(day - Seconds(1))), &beyond, "a second longer than its binding");
    let long = Validity::until(NOW, day + Seconds::HOUR);
    scene.check(&scene.issued(&bound_until(day + Seconds::HOUR), SERIAL, long), &beyond, "longer than the mandate's");
}

#[test]
fn a_leaf_names_one_principal_of_this_org_and_nothing_else() {
    use rcgen::SanType;
    let scene = Scene::new();
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let table = [
        ("no name", vec![]),
        ("two principals", vec![uri(WEB), uri("spiffe://harbor/node/db-1")]),
        ("one principal twice", vec![uri(WEB), uri(WEB)]),
        ("a DNS name too", vec![uri(WEB), SanType::DnsName("gw.example".try_into().unwrap())]),
        ("a DNS name only", vec![SanType::DnsName("gw.example".try_into().unwrap())]),
        ("an address too", vec![uri(WEB), SanType::IpAddress([192, 0, 2, 1].into())]),
        ("another org", vec![uri("spiffe://other/node/web-1")]),
        ("a signer", vec![uri("spiffe://harbor/signer/ann")]),
        ("a path", vec![uri("spiffe://harbor/node/web-1/x")]),
        ("another scheme", vec![uri("https://harbor/node/web-1")]),
    ];
    for (case, names) in table {
        let chain = scene.twisted(WEB, |draft| draft.subject_alt_names = names);
        scene.check(&chain, &Untrusted::NotOnePrincipal, case);
    }
}

#[test]
fn the_dns_names_of_a_user_or_service_say_nothing_about_who_it_is() {
    use rcgen::SanType;
    let scene = Scene::new();
    let (ann, dns_names) = ("spiffe://harbor/user/ann", ["db.example.org", "web-1", "gw.example"]);
    let dns = dns_names.iter().map(|name| name.parse().unwrap()).collect();
    let who = principal(ann);
    let subject = certificate::SvidSubject { principal: &who, dns: &dns };
    let request = read_request(&make_request(&scene.svid_key).unwrap()).unwrap();
    let leaf =
        scene.identity.issuer.issue_svid(subject, &request, &scene.bind(&who, "web-1"), SERIAL, days(1)).unwrap();
    let reading = certificate::read(&leaf).unwrap();
    assert_eq!((reading.uris, reading.other_names), (vec![ann.to_owned()], 0));
    assert_eq!(reading.dns, dns.iter().map(ToString::to_string).collect::<Vec<_>>());
    let (plain, named) = (scene.twisted(ann, |_| ()), scene.identity.chain(leaf));
    assert_eq!(scene.believed(&named, NOW), scene.believed(&plain, NOW));
    assert_eq!(scene.believed(&named, NOW).unwrap().principal, who);
    // A name without a principal is nobody, and addresses are in no SVID.
    let other: [fn(&mut rcgen::CertificateParams); 2] = [
        |draft| draft.subject_alt_names = vec![SanType::DnsName("db.example.org".try_into().unwrap())],
        |draft| draft.subject_alt_names.push(SanType::IpAddress([192, 0, 2, 1].into())),
    ];
    for twist in other {
        scene.check(&scene.twisted(ann, twist), &Untrusted::NotOnePrincipal, "no DNS name beside a principal");
    }
}

#[test]
fn a_leaf_that_could_sign_or_has_another_use_is_refused() {
    use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa};
    let scene = Scene::new();
    let authority = scene.twisted(WEB, |draft| draft.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    scene.check(&authority, &Untrusted::WrongUsage, "CA:TRUE");
    let mail = scene.twisted(WEB, |draft| {
        draft.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    });
    scene.check(&mail, &Untrusted::WrongUsage, "for mail");
}

#[test]
fn a_leaf_counts_from_its_first_second_to_its_last() {
    let scene = Scene::new();
    let chain = scene.bound(&scene.bind(&principal(WEB), "web-1"));
    let Validity { not_before, not_after } = days(1);
    assert!(scene.believed(&chain, not_before).is_ok());
    assert_eq!(
        scene.believed(&chain, not_before - Seconds(1)),
        Err(Untrusted::NotYetValid { of: Of::Svid, from: not_before, now: not_before - Seconds(1) })
    );
    assert!(scene.believed(&chain, not_after).is_ok());
    assert_eq!(
        scene.believed(&chain, not_after + Seconds(1)),
        Err(Untrusted::Expired { of: Of::Svid, until: not_after, now: not_after + Seconds(1) })
    );
}

#[test]
fn whatever_is_revoked_takes_the_svid_with_it() {
    let mut scene = Scene::new();
    let (node_key, issuer) = (scene.node_key.public().digest(), scene.identity.issuer.key_id());
    let gone = |what| Err(Untrusted::Revoked { what: Box::new(what), head: 1 });
    scene.check_head(
        |head| head.revocations.node_keys.extend([node_key]),
        &gone(Named::NodeKey(node_key)),
        "its node key",
    );
    scene.check_head(
        |head| head.revocations.issuing_keys.extend([issuer]),
        &gone(Named::IssuingKey(issuer)),
        "its issuing key",
    );
    scene.check_head(|head| head.revocations.serials.extend([SERIAL]), &gone(Named::Serial(SERIAL)), "its serial");
    scene.check_head(
        |head| head.revocations.principals.extend([principal(WEB)]),
        &gone(Named::Principal(principal(WEB))),
        "its principal",
    );
    let others = |head: &mut Head| {
        head.revocations.node_keys.insert(Digest([0; 32]));
        head.revocations.issuing_keys.insert(KeyId([0; 32]));
        head.revocations.serials.insert(Serial([0; 16]));
        head.revocations.principals.insert(principal("spiffe://harbor/user/web-1"));
    };
    scene.check_head(others, &Ok(()), "others");
}

#[test]
fn a_serial_is_revoked_however_der_writes_it() {
    let mut scene = Scene::new();
    let binding = scene.bind(&principal(WEB), "web-1");
    let mut small = [0; 16];
    small[15] = 1;
    let mut gap = [0xff; 16];
    gap[..3].fill(0);
    for serial in [Serial([0xff; 16]), Serial([0x7f; 16]), Serial(small), Serial(gap)] {
        let chain = scene.issued(&binding, serial, days(1));
        assert_eq!(scene.believed(&chain, NOW).map(|svid| svid.serial), Ok(serial));
        scene.head.revocations.serials.insert(serial);
        let revoked = Untrusted::Revoked { what: Box::new(Named::Serial(serial)), head: 1 };
        scene.check(&chain, &revoked, &serial.to_string());
    }
}

#[test]
fn a_gateway_is_believed_only_under_a_mandated_name_and_key() {
    let scene = Scene::new();
    let request = read_request(&make_request(&scene.svid_key).unwrap()).unwrap();
    let names = [host("gw.example"), host("old.example"), host("192.0.2.1")];
    let leaf = scene.endpoint.issuer.issue_endpoint(&names, &request, SERIAL, days(1)).unwrap();
    let chain = scene.endpoint.chain(leaf);
    let asked = |name: &str| check_endpoint(&chain, &scene.endpoint.roots(), &host(name), NOW);

    for name in ["gw.example", "192.0.2.1"] {
        assert_eq!(asked(name).unwrap().believe(&scene.head, NOW), Ok(&scene.head.mandates[0]), "{name}");
    }
    for name in ["other.example", "sub.gw.example", "192.0.2.2"] {
        let names = ["gw.example", "old.example", "192.0.2.1"].map(str::to_owned).to_vec();
        assert_eq!(asked(name).unwrap_err(), Untrusted::WrongName { dialed: name.into(), names });
    }
    let other = Branch::<Endpoint>::new();
    let stranger = check_endpoint(&chain, &other.roots(), &host("gw.example"), NOW);
    assert!(stranger.unwrap_err().is_unknown_root());
    let late = check_endpoint(&chain, &scene.endpoint.roots(), &host("gw.example"), days(2).not_after);
    assert_eq!(
        late.unwrap_err(),
        Untrusted::Expired { of: Of::Endpoint, until: days(1).not_after, now: days(2).not_after }
    );
    let alone = check_endpoint(&chain[..1], &scene.endpoint.roots(), &host("gw.example"), NOW);
    assert_eq!(alone.unwrap_err(), Untrusted::NotByAnIssuer);

    let check = |name: &str, change: &dyn Fn(&mut Head), expected: Untrusted| {
        let mut head = scene.head.clone();
        change(&mut head);
        assert_eq!(asked(name).unwrap().believe(&head, NOW), Err(expected), "{name}");
    };
    let issuer = scene.endpoint.issuer.key_id();
    check("old.example", &|_| {}, Untrusted::BeyondMandate(node("gw-1")));
    check("gw.example", &|head| head.mandates.clear(), {
        let unmandated = Unmandated { issuer, domain: Domain::Endpoint, head: 1, mandated: Vec::new() };
        Untrusted::UnmandatedIssuer(Box::new(unmandated))
    });
    check("gw.example", &|head| head.mandates[0].not_after = NOW, {
        let from = NOW - Seconds::DAY;
        Untrusted::MandateNotActive(Box::new(Inactive { gateway: node("gw-1"), from, until: NOW, now: NOW }))
    });
    check("gw.example", &|head| head.revocations.issuing_keys.extend([issuer]), {
        Untrusted::Revoked { what: Box::new(Named::IssuingKey(issuer)), head: 1 }
    });
}

#[test]
fn a_joiner_finds_its_pinned_root_and_no_other() {
    let (ours, theirs) = (Branch::<Endpoint>::new(), Branch::<Endpoint>::new());
    let presented = [ours.issuer.certificate().clone(), ours.root.certificate().clone()];
    let pin = |branch: &Branch<Endpoint>| Fingerprint::of_certificate(branch.root.certificate().as_ref());
    assert_eq!(pinned_root(&presented, pin(&ours)).unwrap().certificates(), ours.roots().certificates());
    let unrooted = Unrooted { shown: ours.roots().named(), issuers: Vec::new(), trusted: theirs.roots().named() };
    let unknown = Untrusted::UnknownEndpointRoot(Box::new(unrooted));
    assert_eq!(pinned_root(&presented, pin(&theirs)).unwrap_err(), unknown);
}
