//! DNS names in SVIDs: exactly those that the manifest says, at once, whoever asks for what.

use identity::certificate;
use identity::principal::Principal;
use pki_types::PrivatePkcs8KeyDer;
use rcgen::{CertificateParams, SanType};
use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::until;
use wire::enroll::{Issued, RenewRequest};
use wire::permit::Ask;

use super::Home;

fn wiki(dns: &str) -> String {
    format!("services:\n  wiki: {{at: web-1, addr: '127.0.0.1:1', groups: pages, svid: {{dns: [{dns}]}}}}")
}

#[test]
fn when_the_names_change_the_svid_is_renewed_at_once() {
    let mut home = Home::of("24h");
    home.publish(&wiki("wiki.example.org, www.example.org"), "");
    home.has("service-wiki");
    let dns = |home: &Home| home.reading("service-wiki").dns;
    assert_eq!(dns(&home), ["wiki.example.org", "www.example.org"]);
    assert_eq!(home.reading("service-wiki").uris, ["spiffe://harbor/service/wiki"]);
    for (names, wanted) in [
        ("wiki.example.org", vec!["wiki.example.org"]),
        ("a.example.org, wiki.example.org", vec!["a.example.org", "wiki.example.org"]),
        ("", vec![]),
    ] {
        let before = home.serial("service-wiki");
        home.publish(&wiki(names), "");
        until("the certificate carries what the fleet says", || dns(&home) == wanted);
        assert_ne!(home.serial("service-wiki"), before);
    }
    let told = home.told("spiffe://harbor/service/wiki");
    assert!(told["dns"].is_null(), "{told}");
}

#[test]
fn what_a_request_asks_for_by_name_is_not_heard() {
    let home = Home::of("24h");
    let place = home.place();
    let (mine, papers): (Joiner, Issued) = Joiner::join(&place.code(&["--name", "db-1"]), "db-1", place.port);
    let more = "  boat: {at: db-1, addr: '127.0.0.1:2', groups: pages, svid: {dns: boat.example.org}}";
    home.declare(&format!("  db-1:\n{}\n{more}", wiki("wiki.example.org")), "");
    home.scene.publish();
    let ask = |principal: &str, greedy: bool| {
        let principal: Principal = principal.parse().unwrap();
        let mut line = Dial::to(place.port).with(&mine.own(&papers)).line();
        let ground = Ground::on(&mut line);
        let mut svid = mine.svid_for(&principal, ground.not_after);
        if greedy {
            let key = PrivatePkcs8KeyDer::from(mine.svid_key.pkcs8());
            let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let mut params = CertificateParams::new(vec!["wiki.example.org".to_owned()]).unwrap();
            params.subject_alt_names.push(SanType::URI("spiffe://harbor/service/wiki".try_into().unwrap()));
            svid.request = identity::text::Bytes(params.serialize_request(&key).unwrap().der().to_vec());
        }
        line.ask(Ask::Renew, &RenewRequest { principal, svid }).unwrap()
    };
    assert_eq!(ask("spiffe://harbor/service/wiki", false).code(), "not_placed", "the names of others are with them");
    for greedy in [false, true] {
        let issued: Issued = serde_json::from_value(ask("spiffe://harbor/service/boat", greedy).body).unwrap();
        let read = certificate::read(&issued.svid[0].0.clone().into()).unwrap();
        assert_eq!((read.dns, read.uris.len()), (vec!["boat.example.org".to_owned()], 1), "{greedy}");
    }
}
