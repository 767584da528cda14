//! What gateways show and issue while roots change, and what each layer says when it refuses.

mod chains;
mod spare_keys;
mod gateways;
mod refusals;
mod system_store;

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::{Bundle, BundleBody, Domain, InDomain};
use identity::certificate::{self, Validity};
use identity::envelope::Envelope;
use identity::head::{Cause, Head, TrustLine, Turn};
use identity::id::{Fingerprint, KeyId, OrgId};
use identity::key::P256Key;
use identity::principal::{NodeName, OrgName};
use identity::text::Bytes;
use identity::time::Seconds;
use identity::trust::{self, TrustStep};
use org::gateway::IssuersNotice;
use pki_types::CertificateDer;
use trials::attack::thief::Thief;
use trials::client::stranger::{Dial, Own};
use trials::place::Place;
use wire::control::{Call, ControlAnswer};
use wire::permit::Ask;
use wire::sync::Documents;

/// An operator at work by hand: turns trust with every key that lies in an unprotected home.
pub struct Turner {
    thief: Thief,
    port: u16,
    org: OrgName,
}

/// A root that is not in use yet.
pub struct NewRoot<D: InDomain>(pub Authority<D>);

impl<D: InDomain> NewRoot<D> {
    pub fn make() -> Self {
        let life = Validity::from_now(clock::now(), Seconds::DAY.times(365));
        let org = "harbor".parse().unwrap();
        Self(Authority::root(&org, &random::p256().unwrap(), random::serial().unwrap(), life).unwrap())
    }

    pub fn certificate(&self) -> CertificateDer<'static> {
        self.0.certificate().clone()
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_certificate(self.0.certificate().as_ref())
    }

    /// A certificate for an issuing key.
    pub fn certify(&self, gateway: &str, key: &P256Key) -> CertificateDer<'static> {
        let who: (OrgName, NodeName) = ("harbor".parse().unwrap(), gateway.parse().unwrap());
        let life = Validity::from_now(clock::now(), Seconds::DAY.times(90));
        let made = self.0.certify_issuer(&who.0, &who.1, key, random::serial().unwrap(), life).unwrap();
        made.certificate().clone()
    }
}

impl Turner {
    pub fn at(place: &Place) -> Self {
        Self { thief: Thief::of(place), port: place.port, org: "harbor".parse().unwrap() }
    }

    pub fn org_id(&self) -> OrgId {
        self.thief.known().org()
    }

    fn signed_head(&self) -> Envelope {
        let reply = Dial::to(self.port).line().ask(Ask::Head, &()).unwrap();
        let documents: Documents = serde_json::from_value(reply.body).unwrap();
        documents.documents[0].clone()
    }

    /// The head that the gateway has now.
    pub fn head(&self) -> Head {
        self.signed_head().peek(Some(self.thief.known().org())).unwrap()
    }

    pub fn next_head(&self, cause: Cause, change: impl FnOnce(&mut Head)) -> Envelope {
        let known = self.signed_head();
        let mut head: Head = known.peek(Some(self.thief.known().org())).unwrap();
        head.version += 1;
        head.previous = vec![known.digest()];
        head.issued_at = clock::now();
        head.cause = cause;
        change(&mut head);
        self.thief.seal(&head, &self.thief.signer())
    }

    pub fn hand_in(&self, objects: Vec<Envelope>) {
        assert_eq!(self.thief.hand_in(objects), ("ok".to_owned(), String::new()));
    }

    pub fn publish_head(&self, change: impl FnOnce(&mut Head)) {
        self.hand_in(vec![self.next_head(Cause::Refresh, change)]);
    }

    fn lines(&self, domain: Domain, step: TrustStep) -> Vec<TrustLine> {
        trust::step(&self.head().trust, domain, step, clock::now()).unwrap()
    }

    fn bundle<D: InDomain>(&self, root: &NewRoot<D>, issuers: &[CertificateDer<'static>]) -> (u64, Envelope) {
        let lines = self.head().trust;
        let version = trust::next_version(&lines, D::DOMAIN);
        let replaces = trust::active(&lines, D::DOMAIN).map(|line| line.version);
        let hosts = vec!["127.0.0.1".parse().unwrap()];
        let draft = Bundle::<D>::draft(version, replaces, &self.org, hosts, &root.pem(), clock::now()).unwrap();
        let body = BundleBody { issuers: issuers.iter().map(|der| Bytes(der.as_ref().to_vec())).collect(), ..draft };
        (version, self.thief.seal(&body, &self.thief.signer()))
    }

    /// Stages a root, with certificates of issuing keys under it.
    pub fn publish<D: InDomain>(&self, root: &NewRoot<D>, issuers: &[CertificateDer<'static>]) -> u64 {
        let (version, bundle) = self.bundle(root, issuers);
        let trust = self.lines(D::DOMAIN, TrustStep::Publish { bundle: bundle.digest() });
        let replaces = trust::active(&self.head().trust, D::DOMAIN).map(|line| line.version);
        let turn = Turn { domain: D::DOMAIN, version, replaces, grace: None, waived: Vec::new() };
        let head = self.next_head(Cause::TrustPublish(turn), |head| head.trust = trust);
        self.hand_in(vec![bundle, head]);
        version
    }

    pub fn activate(&self, domain: Domain, version: u64) {
        let former = trust::active(&self.head().trust, domain).map(|line| line.version);
        let trust = self.lines(domain, TrustStep::Activate { version, grace: Seconds::HOUR });
        let grace = trust.iter().find(|line| line.domain == domain && Some(line.version) == former).unwrap().grace;
        let turn = Turn { domain, version, replaces: former, grace, waived: Vec::new() };
        self.hand_in(vec![self.next_head(Cause::TrustActivate(turn), |head| head.trust = trust)]);
    }

    pub fn retire(&self, domain: Domain, version: u64) {
        let trust = self.lines(domain, TrustStep::Retire { version, early: true });
        let turn = Turn { domain, version, replaces: None, grace: None, waived: Vec::new() };
        self.hand_in(vec![self.next_head(Cause::TrustRetire(turn), |head| head.trust = trust)]);
    }

    /// A root was stolen: another takes its place at once, and the mandates change along.
    pub fn replace<D: InDomain>(
        &self,
        root: &NewRoot<D>,
        issuers: &[CertificateDer<'static>],
        change: impl FnOnce(&mut Head),
    ) {
        let stolen = trust::active(&self.head().trust, D::DOMAIN).unwrap().version;
        let (_, bundle) = self.bundle(root, issuers);
        let trust = self.lines(D::DOMAIN, TrustStep::Replace { bundle: bundle.digest() });
        let turn = Turn { domain: D::DOMAIN, version: stolen, replaces: None, grace: None, waived: Vec::new() };
        let head = self.next_head(Cause::TrustRetire(turn), |head| {
            head.trust = trust;
            change(head);
        });
        self.hand_in(vec![bundle, head]);
    }

    /// What the gateways say of their issuing keys.
    pub fn issuers(&self, port: u16) -> Vec<IssuersNotice> {
        let reply = self.thief.call(&mut Dial::to(port).line(), &Call::Issuers {});
        let ControlAnswer::Issuers { issuers } = serde_json::from_value(reply.body).unwrap() else {
            panic!("another answer")
        };
        let org = Some(self.thief.known().org());
        issuers.iter().map(|envelope| envelope.peek(org).unwrap()).collect()
    }

    /// A certificate under a new root for a spare key, by its request.
    pub fn certify_spare<D: InDomain>(&self, root: &NewRoot<D>, request: &Bytes) -> (KeyId, CertificateDer<'static>) {
        let key = certificate::read_request(&request.0).unwrap();
        let (gateway, life) = ("laptop".parse().unwrap(), Validity::from_now(clock::now(), Seconds::DAY.times(90)));
        let made = root.0.certify_request(&self.org, &gateway, &key, random::serial().unwrap(), life);
        (key.id, made.unwrap())
    }

    pub fn issuing_key<D: InDomain>(&self) -> P256Key {
        self.thief.issuing_key::<D>()
    }
}

/// A node's SVID with its key, as they lie there.
pub fn own_of(place: &Place, node: &str) -> Own {
    let key = std::fs::read_to_string(place.scope(node).join("svid.key")).unwrap();
    Own { chain: svid_of(place, node), key: P256Key::from_pem(&key).unwrap() }
}

/// The certificates that a node's SVID is followed by.
pub fn svid_of(place: &Place, node: &str) -> Vec<CertificateDer<'static>> {
    let pem = std::fs::read_to_string(place.scope(node).join("svid.pem")).unwrap();
    certificate::from_pem(&pem).unwrap()
}
