//! A small org to break: two roots, one gateway, one node, one head.

use std::collections::BTreeSet;

use pki_types::CertificateDer;

use crate::authority::Authority;
use crate::bundle::{Endpoint, Identity, InDomain, Roots};
use crate::certificate::binding::{Binding, BindingTerms};
use crate::certificate::{self, Validity, draft_svid, key_id, make_request, read_request};
use crate::head::{Cause, Head, Mandate, Revocations};
use crate::id::{Digest, KeyId, OrgId, Serial};
use crate::key::{EdKey, P256Key, Sign as _};
use crate::principal::{Host, NodeName, OrgName, Principal, PrincipalKind};
use crate::signers::SignersRef;
use crate::time::{Seconds, Timestamp};
use crate::verifier::{BelievedSvid, ProvenSvid, Side, Standard, Untrusted, check_svid};

pub const ORG: OrgId = OrgId([7; 32]);
pub const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
pub const SERIAL: Serial = Serial([0x5a; 16]);

pub fn p256() -> P256Key {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
    let random = aws_lc_rs::rand::SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    P256Key::from_pkcs8(pkcs8.as_ref()).unwrap()
}

pub fn harbor() -> OrgName {
    "harbor".parse().unwrap()
}

pub fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub fn principal(text: &str) -> Principal {
    text.parse().unwrap()
}

pub fn host(text: &str) -> Host {
    text.parse().unwrap()
}

pub fn days(n: u64) -> Validity {
    Validity::from_now(NOW, Seconds::DAY.times(n))
}

/// A root with one issuing key below it.
pub struct Branch<D: InDomain> {
    pub root: Authority<D>,
    pub root_key: P256Key,
    pub issuer: Authority<D>,
    pub issuer_key: P256Key,
}

impl<D: InDomain> Branch<D> {
    pub fn new() -> Self {
        let (root_key, issuer_key) = (p256(), p256());
        let root = Authority::root(&harbor(), &root_key, SERIAL, days(3650)).unwrap();
        let issuer = root.certify_issuer(&harbor(), &node("gw-1"), &issuer_key, SERIAL, days(365)).unwrap();
        Self { root, root_key, issuer, issuer_key }
    }

    pub fn roots(&self) -> Roots<D> {
        Roots::from_certificates(vec![self.root.certificate().clone()])
    }

    pub fn chain(&self, leaf: CertificateDer<'static>) -> Vec<CertificateDer<'static>> {
        vec![leaf, self.issuer.certificate().clone()]
    }
}

/// One gateway, one node `web-1` with its keys, and a head that mandates the gateway.
pub struct Scene {
    pub identity: Branch<Identity>,
    pub endpoint: Branch<Endpoint>,
    pub node_key: P256Key,
    pub svid_key: P256Key,
    pub head: Head,
}

impl Scene {
    pub fn new() -> Self {
        let (identity, endpoint) = (Branch::new(), Branch::new());
        let mandate = Mandate {
            gateway: node("gw-1"),
            voice: EdKey::from_seed(&[1; 32]).public(),
            identity_issuer: identity.issuer.key_id(),
            endpoint_issuer: endpoint.issuer.key_id(),
            hosts: vec![host("gw.example"), host("192.0.2.1")],
            kinds: BTreeSet::from([PrincipalKind::Node, PrincipalKind::User]),
            names: vec!["*".parse().unwrap()],
            svid_ttl: Seconds::DAY,
            not_before: NOW - Seconds::DAY,
            not_after: NOW + Seconds::DAY.times(90),
            addresses: Vec::new(),
        };
        let head = Head {
            version: 1,
            reverts: None,
            cause: Cause::Founding,
            issued_at: NOW,
            fresh_until: NOW + Seconds::DAY.times(30),
            members: None,
            previous: Vec::new(),
            recent: Vec::new(),
            record: std::collections::BTreeMap::new(),
            mandates: vec![mandate],
            placements: Vec::new(),
            revocations: Revocations::default(),
            trust: Vec::new(),
            signers: SignersRef { version: 1, id: Digest([1; 32]) },
            release: None,
            fleet: None,
        };
        Self { identity, endpoint, node_key: p256(), svid_key: p256(), head }
    }

    pub fn svid_key_id(&self) -> KeyId {
        key_id(self.svid_key.public()).unwrap()
    }

    pub fn bind(&self, principal: &Principal, on: &str) -> Binding {
        let not_after = NOW + Seconds::DAY;
        let terms = BindingTerms { org: ORG, principal, node: &node(on), svid_key: self.svid_key_id(), not_after };
        terms.sign(&self.node_key).unwrap()
    }

    /// A chain for `who`, its draft changed before the issuing key signs it.
    pub fn twisted(
        &self,
        who: &str,
        twist: impl FnOnce(&mut rcgen::CertificateParams),
    ) -> Vec<CertificateDer<'static>> {
        let who = principal(who);
        let mut draft = draft_svid(&who, &self.bind(&who, "web-1"), SERIAL, days(1)).unwrap();
        twist(&mut draft);
        let by = (&self.identity.issuer, &self.identity.issuer_key);
        self.identity.chain(self.signed(&draft, by))
    }

    pub fn signed(
        &self,
        draft: &rcgen::CertificateParams,
        (by, key): (&Authority<Identity>, &P256Key),
    ) -> CertificateDer<'static> {
        let issuer = rcgen::Issuer::from_ca_cert_der(by.certificate(), certificate::rcgen_key(key).unwrap()).unwrap();
        draft.signed_by(&certificate::rcgen_key(&self.svid_key).unwrap(), &issuer).unwrap().der().clone()
    }

    /// A chain for `web-1` that carries this binding.
    pub fn bound(&self, binding: &Binding) -> Vec<CertificateDer<'static>> {
        self.issued(binding, SERIAL, days(1))
    }

    /// The same by the crate's own path: request, authority, certificate.
    pub fn issued(&self, binding: &Binding, serial: Serial, validity: Validity) -> Vec<CertificateDer<'static>> {
        let request = read_request(&make_request(&self.svid_key).unwrap()).unwrap();
        let made = self.identity.issuer.issue_svid(&principal(WEB), &request, binding, serial, validity);
        self.identity.chain(made.unwrap())
    }

    pub fn believed(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<BelievedSvid, Untrusted> {
        let (roots, name) = (self.identity.roots(), harbor());
        let standard = Standard { org: ORG, name: &name, roots: &roots, head: &self.head };
        let found = check_svid(chain, Side::Client, standard, now);
        let served = check_svid(chain, Side::Server, standard, now);
        assert_eq!(found.as_ref().ok(), served.as_ref().ok(), "an SVID is good on both sides, or on none");
        found
    }

    pub fn check(&self, chain: &[CertificateDer<'_>], expected: &Untrusted, case: &str) {
        assert_eq!(self.believed(chain, NOW).as_ref(), Err(expected), "{case}");
    }

    /// What the chain proves, whatever the head says.
    pub fn proven(&self, chain: &[CertificateDer<'_>]) -> ProvenSvid {
        self.proven_by(chain, &self.identity.roots())
    }

    pub fn proven_by(&self, chain: &[CertificateDer<'_>], roots: &Roots<Identity>) -> ProvenSvid {
        let name = harbor();
        let standard = Standard { org: ORG, name: &name, roots, head: &self.head };
        ProvenSvid::prove(chain, Side::Client, standard, NOW).unwrap()
    }

    /// A certificate for the gateway's names.
    pub fn endpoint_leaf(&self) -> CertificateDer<'static> {
        let request = read_request(&make_request(&p256()).unwrap()).unwrap();
        self.endpoint.issuer.issue_endpoint(&self.head.mandates[0].hosts, &request, SERIAL, days(1)).unwrap()
    }

    /// Judges by the head of now what was proven earlier.
    pub fn believed_again(
        &self,
        proven: &ProvenSvid,
        roots: &Roots<Identity>,
        now: Timestamp,
    ) -> Result<BelievedSvid, Untrusted> {
        proven.believe(Standard { org: ORG, name: &harbor(), roots, head: &self.head }, now)
    }

    /// The good SVID of `web-1` under a changed head, checked anew and as proven before the change.
    pub fn check_head(&mut self, change: impl FnOnce(&mut Head), expected: &Result<(), Untrusted>, case: &str) {
        let chain = self.bound(&self.bind(&principal(WEB), "web-1"));
        let (untouched, proven) = (self.head.clone(), self.proven(&chain));
        change(&mut self.head);
        let believed = self.believed(&chain, NOW);
        assert_eq!(&believed.clone().map(drop), expected, "{case}");
        assert_eq!(self.believed_again(&proven, &self.identity.roots(), NOW), believed, "{case}, proven before");
        self.head = untouched;
    }
}

pub const WEB: &str = "spiffe://harbor/node/web-1";
