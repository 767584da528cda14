//! What is shown and issued in each state of a root's life.

use std::process::{Command, Stdio};

use ground::clock;
use identity::bundle::{Domain, Endpoint, Identity, InDomain, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::key::EdKey;
use pki_types::CertificateDer;
use trials::attack::thief::Thief;
use trials::client::stranger::Dial;
use trials::place::{Place, output, stderr, stdout, succeeded};
use wire::connect::{GatewayAddress, Provisional};
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::Documents;
use wire::tls::Expect;

use super::{NewRoot, Turner, svid_of};

/// What the gateway shows, as openssl sees it.
fn shown(place: &Place) -> Vec<CertificateDer<'static>> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-showcerts", "-tls1_3", "-connect", &place.address()]).stdin(Stdio::null());
    certificate::from_pem(&stdout(&output(command))).unwrap()
}

/// The trusted roots of a domain, as a stranger with curl reads them.
fn curl(place: &Place, roots: &str, path: &str) -> Result<serde_json::Value, String> {
    let file = place.path("roots.pem");
    std::fs::write(&file, roots).unwrap();
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail", "--noproxy", "*", "--cacert"]).arg(&file);
    command.arg("--dump-header").arg(place.path("headers")).arg(format!("https://{}{path}", place.address()));
    let told = output(command);
    if !told.status.success() {
        return Err(stderr(&told));
    }
    let headers = std::fs::read_to_string(place.path("headers")).unwrap();
    assert!(
        headers.to_lowercase().contains("cache-control: no-store"),
        "roots of yesterday must not be kept: {headers}"
    );
    Ok(serde_json::from_slice(&told.stdout).unwrap())
}

/// Our own client, which goes by these roots alone.
fn believes(place: &Place, roots: &[CertificateDer<'static>]) -> Result<(), String> {
    let gateway = GatewayAddress::from(place.address().parse::<identity::principal::Address>().unwrap());
    let expect = Expect::Roots(Roots::<Endpoint>::from_certificates(roots.to_vec()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dialled = runtime.block_on(Provisional::dial(&gateway, &expect, None));
    dialled.map(drop).map_err(|why| why.to_string())
}

#[test]
fn a_gateway_shows_the_way_to_every_endpoint_root_that_is_trusted_and_to_no_other() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let turner = Turner::at(&place);
    let first = shown(&place);
    let old_root = first[2].clone();
    let old_pem = certificate::to_pem(&first[2..]);
    let mut open = Dial::to(place.port).line();
    assert_eq!(open.code(Ask::Head, &()), "ok");

    let next = NewRoot::<Endpoint>::make();
    let issuer = next.certify("laptop", &turner.issuing_key::<Endpoint>());
    assert!(believes(&place, &[next.certificate()]).is_err(), "nothing leads there yet");
    let version = turner.publish(&next, std::slice::from_ref(&issuer));
    let both = [old_pem.as_str(), &next.pem()].concat();
    for state in ["staged", "in grace"] {
        let chain = shown(&place);
        assert_eq!(chain[1..], [first[1].clone(), old_root.clone(), issuer.clone(), next.certificate()], "{state}");
        for roots in [&[old_root.clone()][..], &[next.certificate()], &[next.certificate(), old_root.clone()]] {
            believes(&place, roots).unwrap();
        }
        for roots in [&old_pem, &both] {
            curl(&place, roots, "/v1/head").unwrap();
        }
        if state == "staged" {
            turner.activate(Domain::Endpoint, version);
        }
    }
    turner.retire(Domain::Endpoint, 1);
    assert_eq!(shown(&place)[1..], [issuer, next.certificate()]);
    believes(&place, &[next.certificate()]).unwrap();
    curl(&place, &next.pem(), "/v1/head").unwrap();
    assert!(believes(&place, &[old_root]).is_err());
    assert!(curl(&place, &old_pem, "/v1/head").is_err());
    // Whoever was there stayed all the while.
    assert_eq!(open.code(Ask::Head, &()), "ok");
}

#[test]
fn an_svid_is_followed_by_the_way_to_the_root_in_use_and_then_to_the_others() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let turner = Turner::at(&place);
    place.joined("one");
    let old = svid_of(&place, "one")[1].clone();
    assert_eq!(svid_of(&place, "one").len(), 2);

    let next = NewRoot::<Identity>::make();
    let new = next.certify("laptop", &turner.issuing_key::<Identity>());
    let version = turner.publish(&next, std::slice::from_ref(&new));
    place.joined("two");
    assert_eq!(svid_of(&place, "two")[1..], [old.clone(), new.clone()], "staged");
    turner.activate(Domain::Identity, version);
    place.joined("three");
    assert_eq!(svid_of(&place, "three")[1..], [new.clone(), old], "active");
    turner.retire(Domain::Identity, 1);
    place.joined("four");
    assert_eq!(svid_of(&place, "four")[1..], [new], "the former is retired");
}

#[test]
fn a_gateway_without_a_certificate_under_the_root_in_use_says_so_and_goes_on() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let turner = Turner::at(&place);
    let fine = place.freehold(&["doctor"]);
    assert!(stdout(&fine).contains("leads to the roots in use"), "{}", stdout(&fine));
    let next = NewRoot::<Identity>::make();
    let version = turner.publish(&next, &[]);
    turner.activate(Domain::Identity, version);
    place.joined("one");
    assert_eq!(svid_of(&place, "one").len(), 2, "what there is");
    let told = place.freehold(&["doctor"]);
    assert_eq!(told.status.code(), Some(1), "{}", stdout(&told));
    for words in ["no certificate under the active identity root", "version 2", &next.fingerprint().to_string()] {
        assert!(stdout(&told).contains(words), "{words}: {}", stdout(&told));
    }
}

/// The versions among these that the operators signed, if all are there that the head names.
fn signed(known: &Known, domain: &str, given: &[Envelope]) -> Result<Vec<u64>, &'static str> {
    fn of<D: InDomain>(known: &Known, given: &[Envelope]) -> Result<Vec<u64>, &'static str> {
        let bundles = known.bundles_among::<D>(given)?;
        Ok(bundles.iter().map(|bundle| bundle.body().trust_bundle_version).collect())
    }
    if domain == "endpoint" { of::<Endpoint>(known, given) } else { of::<Identity>(known, given) }
}

/// The same words under another's signature.
fn forge(envelope: &Envelope) -> Envelope {
    let mut text = serde_json::to_value(envelope).unwrap();
    text["signatures"] = serde_json::json!([]);
    let bare: Envelope = serde_json::from_value(text).unwrap();
    bare.signed(&EdKey::from_seed(&[7; 32])).unwrap()
}

#[test]
fn a_stranger_reads_the_trusted_bundles_of_both_domains_and_can_check_them() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let turner = Turner::at(&place);
    let root = certificate::to_pem(&shown(&place)[2..]);
    let next = NewRoot::<Identity>::make();
    turner.publish(&next, &[next.certify("laptop", &turner.issuing_key::<Identity>())]);
    // Whoever has the founding record needs nobody's word for it.
    let head: Documents = serde_json::from_value(curl(&place, &root, "/v1/head").unwrap()).unwrap();
    let known = Thief::of(&place).known().advance(&[], head.documents.first(), clock::now()).unwrap();
    for (domain, versions) in [("endpoint", &[1][..]), ("identity", &[1, 2])] {
        let told = curl(&place, &root, &format!("/v1/trust/{domain}")).unwrap();
        let documents: Documents = serde_json::from_value(told).unwrap();
        assert_eq!(signed(&known, domain, &documents.documents), Ok(versions.to_vec()));
        let other = if domain == "endpoint" { "identity" } else { "endpoint" };
        let missed = Err("a trust bundle that the head names is missing");
        assert_eq!(signed(&known, other, &documents.documents), missed, "one domain is not the other");
        assert_eq!(signed(&known, domain, &documents.documents[1..]), missed);
        let forged: Vec<_> = documents.documents.iter().map(forge).collect();
        assert_eq!(signed(&known, domain, &forged), Err("a trust bundle does not hold"));
        let mut seen = Vec::new();
        for envelope in documents.documents {
            let body: identity::bundle::BundleBody = envelope.peek(Some(turner.org_id())).unwrap();
            assert_eq!(body.domain.word(), domain);
            std::fs::write(place.path("bundle.pem"), &body.bundle_pem).unwrap();
            let print = trials::place::openssl(
                &place.path(""),
                &["x509", "-in", "bundle.pem", "-noout", "-fingerprint", "-sha256"],
            );
            let print = print.trim().rsplit('=').next().unwrap().replace(':', "").to_lowercase();
            assert_eq!(print, body.sha256_fingerprint.to_string());
            seen.push(body.trust_bundle_version);
        }
        assert_eq!(seen, versions, "{domain}");
    }
    succeeded(&place.freehold(&["trust", "list"]));
}
