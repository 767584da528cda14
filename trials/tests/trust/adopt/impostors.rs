//! Whoever answers where a gateway was, and tells a machine that the roots have moved on: only signatures count.

use std::collections::BTreeMap;
use std::fs;

use ground::random;
use identity::authority::Authority;
use identity::bundle::{Bundle, Endpoint, Identity, InDomain};
use identity::envelope::Envelope;
use identity::head::{Head, TrustLine, TrustState};
use identity::key::EdKey;
use serde_json::{Value, json};
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, a_day, endpoint};
use trials::client::stranger::Own;
use trials::place::{Place, below, output, succeeded};

/// A machine whose gateway is gone, and somebody else in its place who has a root of their own.
struct Stage {
    place: Place,
    thief: Thief,
    own: Own,
    papers: Papers,
}

impl Stage {
    fn new() -> Self {
        let place = Place::founded(&[]);
        let gateway = place.serve();
        succeeded(&place.freehold(&["refresh"]));
        place.joined("web-1");
        drop(gateway);
        let thief = Thief::of(&place);
        let known = thief.known();
        let org = known.founding.record.name.clone();
        let (root_key, issuer_key) = (random::p256().unwrap(), random::p256().unwrap());
        let root = Authority::<Endpoint>::root(&org, &root_key, random::serial().unwrap(), a_day()).unwrap();
        let gateway = "gw-1".parse().unwrap();
        let issuer = root.certify_issuer(&org, &gateway, &issuer_key, random::serial().unwrap(), a_day()).unwrap();
        let own = endpoint(&issuer, "127.0.0.1", root.certificate().clone());
        Self { place, thief, own, papers: Papers::of(known) }
    }

    /// What a machine believes: all but what it jots down of its own.
    fn belief(&self) -> BTreeMap<String, Vec<u8>> {
        let scope = self.place.scope("web-1");
        let files = below(&scope).into_iter().filter(|path| path.is_file() && !path.is_symlink());
        let named = files.map(|path| (path.strip_prefix(&scope).unwrap().to_string_lossy().into_owned(), path));
        let kept = named.filter(|(name, _)| name == "known.json" || name.starts_with("trust"));
        kept.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
    }

    /// It is not believed, asked nothing that is only for gateways, and nothing of it is kept.
    fn refused(&self, papers: Papers, trust: impl Fn(&str) -> Option<Value> + Send + 'static) {
        let before = self.belief();
        let asked = move |path: &str, _: &[u8]| if path.starts_with("/v1/trust/") { trust(path) } else { None };
        let _impostor = Impostor::answering(self.place.port, &self.own, papers, asked);
        let told = output(self.place.node_command("web-1", &["sync"]));
        assert!(!told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
        assert_eq!(self.belief(), before);
    }

    fn bundle<D: InDomain>(&self, key: &EdKey) -> Envelope {
        let org = self.thief.known().founding.record.name;
        let root = Authority::<D>::root(&org, &random::p256().unwrap(), random::serial().unwrap(), a_day()).unwrap();
        let body = Bundle::<D>::draft(2, Some(1), &org, Vec::new(), &root.pem(), ground::clock::now()).unwrap();
        self.thief.seal(&body, key)
    }
}

fn documents(documents: &[Envelope]) -> Value {
    json!({ "documents": documents })
}

/// A head with version 2 of the endpoint roots in the place of version 1.
fn turned(head: &mut Head, bundle: &Envelope) {
    head.version += 1;
    for line in head.trust.iter_mut().filter(|line| line.domain == Endpoint::DOMAIN) {
        line.state = TrustState::Retired;
    }
    head.trust.push(TrustLine::new(Endpoint::DOMAIN, 2, bundle.digest(), TrustState::Active));
}

#[test]
fn nobody_but_the_signers_moves_a_machine_to_other_roots() {
    let stage = Stage::new();
    let (eve, ann) = (random::ed25519().unwrap(), stage.thief.signer());
    let known = stage.thief.known();

    // Garbage, and nothing.
    stage.refused(stage.papers.clone(), |_| Some(json!({ "documents": "yes" })));
    stage.refused(stage.papers.clone(), |_| None);
    // The truth, which has no root of theirs: nothing changes, and it is not believed.
    // An older head, and another org's.
    let older = stage.thief.head(|head| head.version -= 1);
    stage.refused(Papers { head: older, ..stage.papers.clone() }, |_| None);
    let other = Thief::of(&Place::founded(&[])).known();
    stage.refused(Papers { head: other.head_envelope, ..stage.papers.clone() }, |_| None);

    // A head of their own, with a bundle of their own.
    let bundle = stage.bundle::<Endpoint>(&eve);
    let mut head = known.head.head.clone();
    turned(&mut head, &bundle);
    let forged = stage.thief.seal(&head, &eve);
    let sent = bundle.clone();
    stage.refused(Papers { head: forged, ..stage.papers.clone() }, move |_| {
        Some(documents(std::slice::from_ref(&sent)))
    });

    // The signers' head, with a bundle that it does not name, one that nobody signed, and one of the other domain.
    let named = stage.bundle::<Endpoint>(&ann);
    let true_head = stage.thief.head(|head| turned(head, &named));
    let papers = Papers { head: true_head, ..stage.papers.clone() };
    for wrong in [stage.bundle::<Endpoint>(&ann), stage.bundle::<Endpoint>(&eve), stage.bundle::<Identity>(&ann)] {
        stage.refused(papers.clone(), move |_| Some(documents(std::slice::from_ref(&wrong))));
    }
    let identity = stage.bundle::<Identity>(&ann);
    let crossed = stage.thief.head(|head| turned(head, &identity));
    let papers = Papers { head: crossed, ..stage.papers.clone() };
    stage.refused(papers, move |_| Some(documents(std::slice::from_ref(&identity))));

    // More than anybody wants to read.
    let endless = json!({ "documents": [], "more": "x".repeat(20 << 20) });
    stage.refused(stage.papers.clone(), move |_| Some(endless.clone()));
}
