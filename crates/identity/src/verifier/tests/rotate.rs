//! While roots change: one issuing key with a certificate under each, and chains that lead to all of them.

use super::scene::{Branch, NOW, Scene, days, harbor, host, node, principal};
use crate::authority::Authority;
use crate::bundle::{InDomain, Roots};
use crate::id::{Fingerprint, Serial};
use crate::verifier::{Untrusted, check_endpoint, leads_to};

/// The same issuing key under another root.
fn cross<D: InDomain>(old: &Branch<D>, new: &Branch<D>) -> Authority<D> {
    new.root.certify_issuer(&harbor(), &node("gw-1"), &old.issuer_key, Serial([9; 16]), days(365)).unwrap()
}

#[test]
fn an_svid_leads_to_every_root_that_certified_its_issuing_key() {
    let (scene, new) = (Scene::new(), Branch::new());
    let old_only = scene.bound(&scene.bind(&principal("spiffe://harbor/node/web-1"), "web-1"));
    let mut both = old_only.clone();
    both.push(cross(&scene.identity, &new).certificate().clone());
    let (old, fresh) = (scene.identity.roots(), new.roots());
    let union = Roots::from_certificates([old.certificates(), fresh.certificates()].concat());
    let print = |roots: &Roots<_>| Fingerprint::of_certificate(roots.certificates()[0].as_ref());
    assert_eq!(leads_to(&old_only, &union, NOW), [print(&old)]);
    assert_eq!(leads_to(&both, &union, NOW), [print(&old), print(&fresh)]);

    // Proven while both are trusted, it goes on under either alone; what leads to one of them ends with that one.
    let proven = scene.proven_by(&both, &union);
    assert!(scene.believed_again(&proven, &old, NOW).is_ok());
    assert!(scene.believed_again(&proven, &fresh, NOW).is_ok());
    let proven = scene.proven_by(&old_only, &union);
    assert!(scene.believed_again(&proven, &old, NOW).is_ok());
    assert!(scene.believed_again(&proven, &fresh, NOW).is_err());
}

#[test]
fn a_gateway_is_met_under_the_old_root_and_under_the_new_one() {
    let (scene, new) = (Scene::new(), Branch::new());
    let leaf = scene.endpoint_leaf();
    let cross = cross(&scene.endpoint, &new);
    let parts = [leaf, scene.endpoint.issuer.certificate().clone(), scene.endpoint.root.certificate().clone()];
    let chain = [&parts[..], &[cross.certificate().clone(), new.root.certificate().clone()]].concat();
    let name = host("gw.example");
    for roots in [scene.endpoint.roots(), new.roots()] {
        let met = check_endpoint(&chain, &roots, &name, NOW).unwrap();
        assert!(met.believe(&scene.head, NOW).is_ok(), "the mandate names the key, not a certificate of it");
    }
    let stranger = Branch::new().roots();
    assert!(check_endpoint(&chain, &stranger, &name, NOW).unwrap_err().is_unknown_root());
    assert_eq!(check_endpoint(&chain[..1], &new.roots(), &name, NOW).err(), Some(Untrusted::NotByAnIssuer));
}
