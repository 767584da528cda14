//! Bundles of both domains, and what must be in them.

use super::*;
use crate::authority::Authority;
use crate::id::Serial;
use crate::signers::{Quorum, Signer};
use crate::verifier::tests::scene::{Branch, NOW, SERIAL, days, harbor, host, node, p256};

fn signers() -> (SignerSet, crate::key::EdKey) {
    use crate::key::Sign as _;
    let key = crate::key::EdKey::from_seed(&[3; 32]);
    let signer = Signer { name: "ann".parse().unwrap(), key: key.public() };
    let quorum = Quorum::new(1, vec![signer]).unwrap();
    (SignerSet { org: crate::id::OrgId([7; 32]), version: 1, id: crate::id::Digest([7; 32]), quorum }, key)
}

fn draft<D: InDomain>(branch: &Branch<D>) -> BundleBody {
    Bundle::<D>::draft(2, Some(1), &harbor(), vec![host("gw.example")], &branch.root.pem(), NOW).unwrap()
}

fn opened<D: InDomain>(body: &BundleBody) -> Result<Bundle<D>, BadBundle> {
    let (set, key) = signers();
    let envelope = Envelope::seal(Some(set.org), body).unwrap().signed(&key).unwrap();
    Bundle::open(&set, &envelope)
}

fn der(certificate: &CertificateDer<'_>) -> Bytes {
    Bytes(certificate.as_ref().to_vec())
}

#[test]
fn a_bundle_of_one_domain_is_none_of_the_other() {
    let (identity, endpoint) = (Branch::<Identity>::new(), Branch::<Endpoint>::new());
    let (identity, endpoint) = (draft(&identity), draft(&endpoint));
    assert!(opened::<Identity>(&identity).is_ok());
    assert!(opened::<Endpoint>(&endpoint).is_ok());
    let other = |expected, found| Some(BadBundle::OtherDomain { expected, found });
    assert_eq!(opened::<Endpoint>(&identity).err(), other("endpoint", "identity"));
    assert_eq!(opened::<Identity>(&endpoint).err(), other("identity", "endpoint"));
    // Whatever it calls itself, it says its domain in what is signed.
    let renamed = BundleBody { domain: Domain::Endpoint, ..identity.clone() };
    assert_ne!(Envelope::seal(None, &renamed).unwrap().digest(), Envelope::seal(None, &identity).unwrap().digest());
}

#[test]
fn issuing_keys_in_a_bundle_lead_to_its_roots() {
    let (old, new) = (Branch::<Identity>::new(), Branch::<Identity>::new());
    let (org, gateway) = (harbor(), node("gw-1"));
    let cross = new.root.certify_issuer(&org, &gateway, &old.issuer_key, Serial([9; 16]), days(365)).unwrap();
    let body = BundleBody { issuers: vec![der(cross.certificate())], ..draft(&new) };
    let bundle = opened::<Identity>(&body).unwrap();
    assert_eq!(bundle.issuers_of(old.issuer.key_id()).collect::<Vec<_>>(), [cross.certificate()]);
    assert_eq!(bundle.issuers_of(new.issuer.key_id()).count(), 0);
    // Another root's, a leaf, a certificate that says its issuer's name but is signed by somebody else, junk.
    let stranger = Authority::<Identity>::root(&harbor(), &p256(), SERIAL, days(9)).unwrap();
    let forged = stranger.certify_issuer(&org, &gateway, &old.issuer_key, SERIAL, days(9)).unwrap();
    for bad in [der(old.issuer.certificate()), der(forged.certificate()), Bytes(vec![1, 2, 3]), Bytes(Vec::new())] {
        let body = BundleBody { issuers: vec![bad], ..draft(&new) };
        assert_eq!(opened::<Identity>(&body).err(), Some(BadBundle::BadIssuer));
    }
    let many = BundleBody { issuers: vec![der(cross.certificate()); MAX_ISSUERS + 1], ..draft(&new) };
    assert_eq!(opened::<Identity>(&many).err(), Some(BadBundle::BadIssuer));
}

#[test]
fn an_outside_root_has_names_and_never_stands_among_ours() {
    let (own, public) = (Branch::<Endpoint>::new(), Branch::<Endpoint>::new());
    let outside = OutsideRoot { hosts: vec![host("get.example")], pem: public.root.pem() };
    let with = |outside: OutsideRoot| BundleBody { outside: vec![outside], ..draft(&own) };
    let bundle = opened::<Endpoint>(&with(outside.clone())).unwrap();
    assert_eq!(bundle.roots().certificates(), own.roots().certificates(), "never among the roots of gateways");
    let nameless = OutsideRoot { hosts: Vec::new(), ..outside.clone() };
    let ours = OutsideRoot { pem: own.root.pem(), ..outside.clone() };
    for bad in [nameless, ours] {
        assert_eq!(opened::<Endpoint>(&with(bad)).err(), Some(BadBundle::BadOutside));
    }
    let identity = BundleBody { outside: vec![outside], ..draft(&Branch::<Identity>::new()) };
    assert_eq!(opened::<Identity>(&identity).err(), Some(BadBundle::BadOutside));
}

#[test]
fn the_roots_of_several_versions_are_named_once() {
    let branch = Branch::<Endpoint>::new();
    let bundles = [opened::<Endpoint>(&draft(&branch)).unwrap(), opened::<Endpoint>(&draft(&branch)).unwrap()];
    assert_eq!(Roots::of_all(&bundles).certificates().len(), 1);
    assert_eq!(
        bundles[0].fingerprints().next(),
        Some(bundles[0].body().sha256_fingerprint),
        "one root, one fingerprint"
    );
}
