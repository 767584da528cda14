//! A small org made in code: a founder, an issuing key, nodes with their keys and SVIDs, and heads with a members' map.

use std::collections::{BTreeMap, BTreeSet};

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::Identity as IdentityDomain;
use identity::certificate::binding::BindingTerms;
use identity::certificate::{Validity, draft_svid, key_id};
use identity::envelope::{Envelope, Payload};
use identity::head::{Head, Mandate};
use identity::id::{Correlation, Digest, InviteId, KeyId, OrgId};
use identity::key::{EdKey, P256Key, Sign as _};
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key};
use identity::principal::{NodeName, OrgName, Principal, PrincipalKind};
use identity::signers::{Recovery, Succession};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::founding::{Founding, FoundingRecord};
use org::invite::admission::ClaimAuthority;
use org::invite::{Invite, Right, Uses};
use org::ledger::entry::{Action, SignedEntry, Stamp, Under};
use org::ledger::step::SignerStep;
use org::member::peer::Presented;
use org::suspend::Suspension;
use org::suspend::suspended::Suspensions;
use rcgen::{CertificateParams, KeyPair};
pub use testorg::node;
use testorg::quorum;
use wire::known::Known;

use crate::control::order::{KeyedSvid, Knowledge};

pub struct Org {
    pub name: OrgName,
    /// Who signs: at first `ann`.
    signer: &'static str,
    /// What leads to that one.
    chain: Vec<Envelope>,
    issuer: Authority<IdentityDomain>,
    pub issuer_key: P256Key,
    root: Authority<IdentityDomain>,
    founding: Founding,
    pub keys: BTreeMap<NodeName, P256Key>,
    pub head: Head,
    /// What a node is handed that knows them.
    pub suspensions: Suspensions,
    /// Heads beside the one that counts.
    pub beside: Vec<Envelope>,
    /// Who came since the head was made, each by an invite for such names.
    newcomers: BTreeMap<NodeName, &'static str>,
}

impl Org {
    /// The first head names these nodes.
    pub fn new(nodes: &[&str]) -> Self {
        let (name, now): (OrgName, _) = ("harbor".parse().unwrap(), clock::now());
        let (root_key, issuer_key) = (random::p256().unwrap(), random::p256().unwrap());
        let year = Validity::from_now(now, Seconds::DAY.times(365));
        let serial = || random::serial().unwrap();
        let root = Authority::root(&name, &root_key, serial(), year).unwrap();
        let issuer = root.certify_issuer(&name, &node("gw-1"), &issuer_key, serial(), year).unwrap();
        let identity_root = Bytes(root.certificate().to_vec());
        let record = FoundingRecord { founded_at: now - Seconds::DAY, identity_root, ..testorg::record(quorum("ann")) };
        let founding = testorg::founded(&record, &["ann"]);
        let head = first_head(&founding, issuer.key_id(), now);
        let keys = nodes.iter().map(|name| (node(name), random::p256().unwrap())).collect();
        let beside = Vec::new();
        let mut org = Self {
            name,
            signer: "ann",
            chain: Vec::new(),
            issuer,
            issuer_key,
            root,
            founding,
            keys,
            head,
            suspensions: Suspensions::default(),
            beside,
            newcomers: BTreeMap::new(),
        };
        org.head.members = Some(org.map().root());
        org
    }

    /// The next head.
    pub fn publish(&mut self, change: impl FnOnce(&mut Head)) {
        let before = self.envelope().digest();
        self.head.version += 1;
        self.head.recent.insert(0, before);
        change(&mut self.head);
        self.head.members = Some(self.map().root());
    }

    pub fn revoke(&mut self, name: &str) {
        let key = self.keys[&node(name)].public().digest();
        self.publish(|head| head.revocations.node_keys.extend([key]));
    }

    /// What the one signer signs: this node, from then on, for so long.
    pub fn suspension(&self, name: &str, at: Timestamp, span: Seconds) -> Envelope {
        let node_key = self.keys[&node(name)].public().digest();
        let body = Suspension { node_key, name: node(name), at, until: at + span, reason: "odd".to_owned() };
        self.sealed(&body, self.signer)
    }

    /// Known to whoever is handed something from now on, since now.
    pub fn suspend(&mut self, name: &str, span: Seconds) {
        let (now, set) = (clock::now(), self.founding.first_signers());
        assert!(self.suspensions.take(&[self.suspension(name, now, span)], &set, now));
    }

    /// Another operator revokes it in a head of the version before, which the one that counts does not know.
    pub fn revoke_beside(&mut self, name: &str) {
        let mut body = Head { version: self.head.version - 1, ..self.head.clone() };
        body.revocations.node_keys.extend([self.keys[&node(name)].public().digest()]);
        self.beside.push(self.sealed(&body, self.signer));
    }

    /// A step from the founders' set to this one's, on the founders' word.
    pub fn succession(&self, to: &str) -> Envelope {
        let first = self.founding.first_signers();
        let body = Succession { version: 2, previous: first.id, also: Vec::new(), quorum: quorum(to), head: None };
        self.sealed(&body, "ann")
    }

    /// The same on the word of the recovery keys.
    pub fn recovery(&self, to: &str) -> Envelope {
        let (previous, at) = (self.founding.first_signers().id, self.head.issued_at);
        let body = Recovery { version: 2, previous, quorum: quorum(to), head: None, settles: false, at };
        self.sealed(&body, "safe")
    }

    /// From here on this one signs, whom that step leads to from the founders; the next head is the first of it.
    pub fn hand_over(&mut self, step: Envelope, to: &'static str) {
        let set = SignerStep::read(self.founding.id, &step).unwrap().to;
        self.publish(|head| head.signers = set.as_ref());
        (self.chain, self.signer) = (vec![step], to);
    }

    pub fn principal(&self, kind: &str, name: &str) -> Principal {
        format!("spiffe://{}/{kind}/{name}", self.name).parse().unwrap()
    }

    pub const fn founding_id(&self) -> OrgId {
        self.founding.id
    }

    fn leaf(&self, name: &NodeName) -> NodeLeaf {
        let (node_key, admission) = (self.keys[name].public().digest(), Digest([9; 32]));
        NodeLeaf { name: name.clone(), node_key, admission, manifest: Meant::Nothing }
    }

    fn map(&self) -> MembersMap {
        let listed = self.keys.keys().filter(|name| !self.newcomers.contains_key(*name));
        let leaves: Vec<Leaf> = listed.map(|name| Leaf::Node(self.leaf(name))).collect();
        MembersMap::of(&leaves).unwrap()
    }

    fn sealed<T: Payload>(&self, body: &T, by: &str) -> Envelope {
        testorg::sealed(Some(self.founding.id), body, &[by])
    }

    fn envelope(&self) -> Envelope {
        self.sealed(&self.head, self.signer)
    }

    /// A machine that no map lists, let in by an invite for such names.
    pub fn join(&mut self, name: &str, names: &'static str) {
        self.newcomers.insert(node(name), names);
        self.keys.insert(node(name), random::p256().unwrap());
    }

    fn admission(&self, name: &NodeName, names: &str) -> Envelope {
        let (org, voice, secret) = (Some(self.founding.id), EdKey::from_seed(&[1; 32]), EdKey::from_seed(&[8; 32]));
        let (gateway, uses) = (node("gw-1"), Uses::Limited(1));
        let invite = Invite {
            rights: vec![Right { gateway, voice: voice.public(), uses }],
            created_at: self.head.issued_at,
            expires_at: self.head.fresh_until,
            names: vec![names.parse().unwrap()],
            ..testorg::invite(InviteId([8; 16]), secret.public())
        };
        let claim = testorg::claim(ClaimAuthority::Invite(invite.id), self.keys[name].public(), name.as_str());
        let claim = Envelope::seal(org, &claim).unwrap().signed(&secret).unwrap().signed(&self.keys[name]).unwrap();
        let invite = Some(self.sealed(&invite, self.signer));
        let (under, when) = (
            Under { version: 1, digest: Digest([0; 32]) },
            Stamp { at: clock::now(), correlation: Correlation([0; 8]) },
        );
        let action = Action::NodeAdmit { claim, invite, approval: None };
        SignedEntry::write(self.founding.id, None, &voice, under, when, action).unwrap().envelope
    }

    pub fn presented(&self, name: &NodeName) -> Presented {
        if let Some(names) = self.newcomers.get(name) {
            let listing = Some(Listing::Unlisted { absence: self.map().prove_absence(node_key(name)).unwrap() });
            return Presented { by: self.envelope(), listing, admission: Some(self.admission(name, names)) };
        }
        let path = self.map().prove(node_key(name)).unwrap();
        let listing = Some(Listing::Own { leaf: self.leaf(name), path, class: None });
        Presented { by: self.envelope(), listing, admission: None }
    }

    /// What a node was handed that knows the newest head.
    pub fn knowledge(&self, name: &str) -> Knowledge {
        let known = Known::new(self.founding.clone(), &self.chain, &self.envelope()).unwrap();
        let known = known.hear(&self.beside, clock::now()).unwrap_or(known);
        Knowledge {
            known: known.to_file(),
            ahead: 0,
            roots: vec![Bytes(self.root.certificate().to_vec())],
            former: Vec::new(),
            suspensions: self.suspensions.clone(),
            presented: Some(self.presented(&node(name))),
        }
    }

    pub fn svid(&self, who: &Principal, on: &str) -> KeyedSvid {
        let day = Validity::from_now(clock::now(), Seconds::DAY);
        self.twisted(who, on, &self.keys[&node(on)], day, |_| {})
    }

    /// Bound by this key, valid for this time, and changed before the issuing key signs it.
    pub fn twisted(
        &self,
        who: &Principal,
        on: &str,
        by: &P256Key,
        validity: Validity,
        twist: impl FnOnce(&mut CertificateParams),
    ) -> KeyedSvid {
        let key = random::p256().unwrap();
        let (svid_key, not_after) = (key_id(key.public()).unwrap(), validity.not_after);
        let terms = BindingTerms { org: self.founding.id, principal: who, node: &node(on), svid_key, not_after };
        let binding = terms.sign(by).unwrap();
        let mut draft = draft_svid(who, &binding, random::serial().unwrap(), validity).unwrap();
        twist(&mut draft);
        let issuer = rcgen::Issuer::from_ca_cert_der(self.issuer.certificate(), pair(&self.issuer_key)).unwrap();
        let leaf = draft.signed_by(&pair(&key), &issuer).unwrap();
        let chain = vec![Bytes(leaf.der().to_vec()), Bytes(self.issuer.certificate().to_vec())];
        KeyedSvid { principal: who.clone(), chain, key: Bytes(key.pkcs8().to_vec()) }
    }
}

fn pair(key: &P256Key) -> KeyPair {
    let der = pki_types::PrivatePkcs8KeyDer::from(key.pkcs8());
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ECDSA_P256_SHA256).unwrap()
}

fn first_head(founding: &Founding, identity_issuer: KeyId, now: Timestamp) -> Head {
    let mandate = Mandate {
        voice: EdKey::from_seed(&[1; 32]).public(),
        identity_issuer,
        kinds: BTreeSet::from([PrincipalKind::Node, PrincipalKind::User, PrincipalKind::Service]),
        names: vec!["*".parse().unwrap()],
        not_before: now - Seconds::DAY,
        not_after: now + Seconds::DAY.times(90),
        ..testorg::mandate("gw-1")
    };
    Head {
        issued_at: now - Seconds::HOUR,
        fresh_until: now + Seconds::DAY.times(30),
        mandates: vec![mandate],
        ..testorg::first_head(founding.first_signers().as_ref())
    }
}
