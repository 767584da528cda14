//! Certificate requests and bindings that ask for more than was offered: only a P-256 key is ever taken from them.

use ground::random;
use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::id::OrgId;
use identity::key::Sign as _;
use identity::principal::Principal;
use identity::text::Bytes;
use identity::time::Seconds;
use pki_types::CertificateDer;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType};
use trials::client::joiner::{Ground, Joiner, check_in, prove};
use trials::client::stranger::Dial;
use wire::enroll::{Issued, SvidRequest};
use wire::permit::Ask;

use super::Scene;

/// Honest in everything but the certificate request and the binding.
fn send(
    scene: &Scene,
    joiner: &Joiner,
    twist: impl FnOnce(SvidRequest, Ground) -> SvidRequest,
) -> trials::client::stranger::Reply {
    let mut line = Dial::to(scene.port()).line();
    let ground = Ground::on(&mut line);
    let svid = twist(joiner.svid(ground.not_after), ground);
    let request = prove(joiner.signed_claim(), svid, ground, (&joiner.invite_key(), &joiner.node_key));
    line.ask(Ask::Enroll, &request).unwrap()
}

/// A request that asks to be a certificate authority in everybody's name.
fn greedy(key: &rcgen::KeyPair) -> Bytes {
    let mut params = CertificateParams::new(vec!["gw.example".into()]).unwrap();
    params.subject_alt_names.push(SanType::URI("spiffe://harbor/node/db-1".try_into().unwrap()));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
    Bytes(params.serialize_request(key).unwrap().der().to_vec())
}

#[test]
fn a_greedy_request_is_served_with_its_key_and_nothing_else() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let pkcs8 = pki_types::PrivatePkcs8KeyDer::from(joiner.svid_key.pkcs8());
    let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let reply = send(&scene, &joiner, |svid, _| SvidRequest { request: greedy(&key), ..svid });
    assert_eq!(reply.code(), "ok");
    let issued: Issued = serde_json::from_value(reply.body).unwrap();
    assert_eq!(issued.svid.len(), 2, "a leaf and its issuer");
    let leaf = certificate::read(&CertificateDer::from(issued.svid[0].0.clone())).unwrap();
    assert_eq!((leaf.uris.as_slice(), leaf.other_names), (&["spiffe://harbor/node/web-1".to_owned()][..], 0));
    assert_eq!((leaf.is_ca, leaf.key), (false, certificate::key_id(joiner.svid_key.public()).unwrap()));
    let binding = leaf.binding.unwrap();
    assert_eq!(binding.node_key, joiner.node_key.public());
    assert!(leaf.validity.not_after <= binding.not_after);
    assert!(leaf.validity.not_after.since(leaf.validity.not_before) <= Seconds(86_400 + 600));
    assert_eq!(Dial::to(scene.port()).with(&joiner.own(&issued)).line().code(Ask::CheckIn, &check_in()), "ok");
    assert_eq!(scene.place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn a_request_that_its_own_p256_key_did_not_sign_is_refused() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let before = scene.truth();
    let good = certificate::make_request(&joiner.svid_key).unwrap();
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let trailing = [&good[..], &[0]].concat();
    let edwards = greedy(&rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
    let larger = greedy(&rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap());
    for (case, request) in [
        ("a bad self-signature", Bytes(forged)),
        ("bytes after its end", Bytes(trailing)),
        ("an Ed25519 key", edwards),
        ("a P-384 key", larger),
        ("nothing", Bytes(Vec::new())),
        ("garbage", Bytes(vec![0x30; 9 << 10])),
    ] {
        let reply = send(&scene, &joiner, |svid, _| SvidRequest { request, ..svid });
        assert_eq!(reply.code(), "bad_request", "{case}");
    }
    assert_eq!(scene.truth(), before);
    scene.audit();
}

type Forge<'a> = &'a dyn Fn(Ground) -> identity::certificate::binding::Binding;

#[test]
fn a_binding_fits_the_offer_or_nothing_is_issued() {
    let scene = Scene::new();
    let joiner = Joiner::new(&scene.place.code(&[]), "web-1");
    let before = scene.truth();
    let svid_key = certificate::key_id(joiner.svid_key.public()).unwrap();
    let (own, other, org) = (joiner.name.clone(), "db-1".parse().unwrap(), joiner.code.org);
    let stranger = random::p256().unwrap();
    let honest = |ground: Ground, principal: &Principal, node: &_, key: &dyn identity::key::Sign| {
        BindingTerms { org, principal, node, svid_key, not_after: ground.not_after }.sign(key).unwrap()
    };
    let me = joiner.principal();
    let them = Principal::node(&joiner.code.name, &other);
    let ann = Principal::user(&joiner.code.name, &"ann".parse().unwrap());
    let later = |ground: Ground, more: u64| {
        let not_after = ground.not_after + Seconds(more);
        BindingTerms { org, principal: &me, node: &own, svid_key, not_after }.sign(&joiner.node_key).unwrap()
    };
    let cases: [(&str, Forge<'_>); 9] = [
        ("another principal", &|ground| honest(ground, &them, &own, &joiner.node_key)),
        ("another machine's name", &|ground| honest(ground, &them, &other, &joiner.node_key)),
        ("my principal on another machine", &|ground| honest(ground, &me, &other, &joiner.node_key)),
        ("a user", &|ground| honest(ground, &ann, &own, &joiner.node_key)),
        ("another node key", &|ground| honest(ground, &me, &own, &stranger)),
        ("a second later than offered", &|ground| later(ground, 1)),
        ("a year later than offered", &|ground| later(ground, 365 * 86_400)),
        ("another SVID key", &|ground| {
            let svid_key = certificate::key_id(stranger.public()).unwrap();
            let terms = BindingTerms { org, principal: &me, node: &own, svid_key, not_after: ground.not_after };
            terms.sign(&joiner.node_key).unwrap()
        }),
        ("another org", &|ground| {
            let org = OrgId([1; 32]);
            let terms = BindingTerms { org, principal: &me, node: &own, svid_key, not_after: ground.not_after };
            terms.sign(&joiner.node_key).unwrap()
        }),
    ];
    for (case, twist) in cases {
        let reply = send(&scene, &joiner, |svid, ground| SvidRequest { binding: twist(ground), ..svid });
        assert_eq!(reply.code(), "bad_binding", "{case}");
    }
    let reply = send(&scene, &joiner, |svid, _| SvidRequest { counter: 5, ..svid });
    assert_eq!(reply.code(), "counter_conflict", "a counter that does not begin");
    assert_eq!(scene.truth(), before);
    scene.audit();
}
