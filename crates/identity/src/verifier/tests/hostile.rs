//! Hostile bytes: requests that ask for too much, and certificates, bindings and requests that are broken.

use proptest::prelude::{ProptestConfig, any, prop, proptest};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyUsagePurpose, SanType};

use super::*;
use crate::certificate::{BadCertificate, read};

/// A request that asks for a CA certificate in somebody else's name.
fn greedy(key: &rcgen::KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["gw.example".into()]).unwrap();
    params.subject_alt_names.push(SanType::URI("spiffe://harbor/node/db-1".try_into().unwrap()));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn a_request_gives_its_key_and_nothing_else_that_it_asks_for() {
    let scene = Scene::new();
    let request = greedy(&certificate::rcgen_key(&scene.svid_key).unwrap());
    let requested = read_request(&request).unwrap();
    assert_eq!(requested, read_request(&make_request(&scene.svid_key).unwrap()).unwrap());

    let binding = scene.bind(&principal(WEB), "web-1");
    let made = scene.identity.issuer.issue_svid(&principal(WEB), &requested, &binding, SERIAL, days(1)).unwrap();
    let reading = read(&made).unwrap();
    assert_eq!((reading.uris, reading.other_names, reading.is_ca), (vec![WEB.to_owned()], 0, false));
    assert_eq!((reading.key, reading.binding), (scene.svid_key_id(), Some(binding)));
    assert!(scene.believed(&scene.identity.chain(made), NOW).is_ok());
}

#[test]
fn a_request_is_refused_unless_its_own_p256_key_signed_exactly_it() {
    let key = p256();
    let good = make_request(&key).unwrap();
    let mut trailing = good.clone();
    trailing.push(0);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    // Another key in the place of the one that signed: a key that the asker does not hold.
    let mut swapped = good.clone();
    let (PublicKey::P256(ours), PublicKey::P256(theirs)) = (key.public(), p256().public()) else {
        panic!("a P-256 key has a P-256 public half")
    };
    let at = good.windows(65).position(|window| window == ours).unwrap();
    swapped[at..at + 65].copy_from_slice(&theirs);
    let edwards = greedy(&rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
    let larger = greedy(&rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap());
    for (case, request, expected) in [
        ("a byte after its end", trailing, BadCertificate::BadRequest),
        ("a changed signature", forged, BadCertificate::BadRequest),
        ("another's key", swapped, BadCertificate::BadRequest),
        ("cut short", good[..good.len() - 1].to_vec(), BadCertificate::BadRequest),
        ("nothing", Vec::new(), BadCertificate::BadRequest),
        ("very long", vec![0x30; 9 << 10], BadCertificate::BadRequest),
        ("Ed25519", edwards, BadCertificate::NotP256),
        ("P-384", larger, BadCertificate::NotP256),
    ] {
        assert_eq!(read_request(&request), Err(expected), "{case}");
    }
}

#[test]
fn a_renewal_has_the_serial_it_was_given_whatever_its_key() {
    let scene = Scene::new();
    let binding = scene.bind(&principal(WEB), "web-1");
    let serial = |given: u8| {
        let chain = scene.issued(&binding, Serial([given; 16]), days(1));
        serial_of(&read(&chain[0]).unwrap()).unwrap()
    };
    assert_eq!((serial(1), serial(2)), (Serial([1; 16]), Serial([2; 16])));
}

#[test]
fn a_serial_of_more_than_sixteen_bytes_is_not_ours() {
    let scene = Scene::new();
    let long = scene.twisted(WEB, |draft| draft.serial_number = Some(vec![0x11; 17].into()));
    scene.check(&long, &Untrusted::Malformed, "seventeen bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_binding_reads_arbitrary_bytes_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Binding::from_der(&bytes);
        let short = bytes.len() % 0x80;
        let framed = [&[0x0c, u8::try_from(short).unwrap()][..], &bytes[..short]].concat();
        let _ = Binding::from_der(&framed);
    }

    #[test]
    fn a_changed_binding_is_unreadable_or_does_not_hold(edits in edits()) {
        let (key, web) = (fixed(), principal(WEB));
        let svid_key = key_id(key.public()).unwrap();
        let terms = BindingTerms { org: ORG, principal: &web, node: &node("web-1"), svid_key, not_after: NOW };
        let good = terms.sign(&key).unwrap();
        assert_eq!(Binding::from_der(&good.to_der()).as_ref(), Some(&good));
        if let Some(read) = Binding::from_der(&mutate(&good.to_der(), &edits)) {
            assert!(read == good || read.check(ORG, &web, svid_key).is_err());
        }
    }

    #[test]
    fn a_mutated_certificate_is_never_believed(edits in edits()) {
        let (scene, chain) = standing();
        for place in 0..2 {
            let mut changed = chain.clone();
            changed[place] = CertificateDer::from(mutate(chain[place].as_ref(), &edits));
            let _ = read(&changed[place]);
            assert!(changed == *chain || scene.believed(&changed, NOW).is_err());
        }
    }

    #[test]
    fn a_mutated_request_never_yields_another_key(edits in edits()) {
        let good = make_request(&fixed()).unwrap();
        let expected = read_request(&good).unwrap();
        // Its name for the algorithm is not signed, and not used: P-256 is the only one.
        let read = read_request(&mutate(&good, &edits));
        assert!(read.is_err() || read == Ok(expected));
    }

    #[test]
    fn arbitrary_bytes_are_no_certificate_and_no_request(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        assert!(read_request(&bytes).is_err());
        assert!(read(&CertificateDer::from(bytes)).is_err());
    }
}

type Edit = (prop::sample::Index, u8, u8);

fn edits() -> impl proptest::strategy::Strategy<Value = Vec<Edit>> {
    prop::collection::vec(any::<Edit>(), 1..5)
}

/// Flips, inserts, deletes and truncates.
fn mutate(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for (at, how, value) in edits {
        let at = at.index(out.len().max(1)).min(out.len());
        match how % 8 {
            0 => out.insert(at, *value),
            1 if at < out.len() => drop(out.splice(at..=at, [])),
            2 => out.truncate(at),
            _ => {
                if let Some(byte) = out.get_mut(at) {
                    *byte ^= *value;
                }
            }
        }
    }
    out
}

/// Made once: keys and certificates are slow to make afresh for each case.
fn standing() -> &'static (Scene, Vec<CertificateDer<'static>>) {
    static STANDING: std::sync::OnceLock<(Scene, Vec<CertificateDer<'static>>)> = std::sync::OnceLock::new();
    STANDING.get_or_init(|| {
        let scene = Scene::new();
        let chain = scene.bound(&scene.bind(&principal(WEB), "web-1"));
        (scene, chain)
    })
}

fn fixed() -> P256Key {
    P256Key::from_pkcs8(standing().0.node_key.pkcs8()).unwrap()
}
