//! One who read the disk of an unprotected home: signs with every key that lies there.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::path::PathBuf;

use ground::sealed::{self, SealError};
use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::certificate::{self, Validity};
use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head};
use identity::key::{EdKey, P256Key, Sign as _};
use identity::members::{Leaf, MembersMap};
use identity::text::Bytes;
use identity::time::Seconds;
use pki_types::CertificateDer;
use wire::control::{Call, ControlAnswer, SignedCall, Survey};
use wire::known::{Known, KnownFile};
use wire::permit::Ask;

use crate::client::stranger::{Dial, Line, Own, Reply};
use crate::place::Place;

#[derive(Debug)]
pub struct Thief {
    folder: PathBuf,
    port: u16,
}

impl Thief {
    pub fn of(place: &Place) -> Self {
        Self::at(place.home().join("harbor"), place.port)
    }

    /// Of the folder of an org in another home.
    pub const fn at(folder: PathBuf, port: u16) -> Self {
        Self { folder, port }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.join(name)).unwrap()
    }

    fn unsealed(&self, name: &str, purpose: &str) -> Vec<u8> {
        let opened: Result<_, SealError> = sealed::open(&self.read(name), purpose, || Err(SealError::Kdf));
        opened.unwrap().to_vec()
    }

    fn certificate(&self, name: &str) -> CertificateDer<'static> {
        let pem = String::from_utf8(self.read(name)).unwrap();
        certificate::from_pem(&pem).unwrap().remove(0)
    }

    // ---- keys ----

    pub fn signer(&self) -> EdKey {
        self.signer_of("ann")
    }

    pub fn signer_of(&self, name: &str) -> EdKey {
        let seed = self.unsealed(&format!("operator/signers/{name}.key"), &format!("freehold signer {name}"));
        EdKey::from_seed(seed.as_slice().try_into().unwrap())
    }

    /// The key with which the gateway signs admissions.
    pub fn voice(&self) -> EdKey {
        EdKey::from_seed(self.read("gateway/voice.key").as_slice().try_into().unwrap())
    }

    pub fn identity_root(&self) -> Authority<Identity> {
        self.founders_root()
    }

    /// A root of version 1, with its key.
    pub fn founders_root<D: InDomain>(&self) -> Authority<D> {
        let name = format!("{}-root", D::DOMAIN.word());
        let key = self.unsealed(&format!("operator/{name}.key"), &format!("freehold {name}"));
        let certificate = self.certificate(&format!("operator/{name}.pem"));
        Authority::load(certificate, &P256Key::from_pkcs8(&key).unwrap()).unwrap()
    }

    pub fn endpoint_root(&self) -> CertificateDer<'static> {
        self.certificate("gateway/endpoint-root.pem")
    }

    pub fn issuing_key<D: InDomain>(&self) -> P256Key {
        let pem = self.read(&format!("gateway/{}-issuer.key", D::DOMAIN.word()));
        P256Key::from_pem(&String::from_utf8(pem).unwrap()).unwrap()
    }

    pub fn issuer<D: InDomain>(&self) -> Authority<D> {
        let certificate = self.certificate(&format!("gateway/{}-issuer.pem", D::DOMAIN.word()));
        Authority::load(certificate, &self.issuing_key::<D>()).unwrap()
    }

    /// Signs any draft with the stolen identity issuing key.
    pub fn sign_draft(&self, draft: &rcgen::CertificateParams, key: &P256Key) -> Own {
        let issuer = self.issuer::<Identity>().certificate().clone();
        let signing = rcgen::Issuer::from_ca_cert_der(&issuer, rcgen_key(&self.issuing_key::<Identity>())).unwrap();
        let leaf = draft.signed_by(&rcgen_key(key), &signing).unwrap().der().clone();
        Own { chain: vec![leaf, issuer], key: P256Key::from_pkcs8(key.pkcs8()).unwrap() }
    }

    /// A gateway's HTTPS certificate, made with the stolen endpoint issuing key.
    pub fn endpoint(&self, host: &str) -> Own {
        endpoint(&self.issuer::<Endpoint>(), host, self.endpoint_root())
    }

    // ---- objects ----

    pub fn known(&self) -> Known {
        let file: KnownFile = serde_json::from_slice(&self.read("operator/known.json")).unwrap();
        Known::from_file(file).unwrap()
    }

    pub fn seal<T: Payload>(&self, body: &T, by: &EdKey) -> Envelope {
        Envelope::seal(Some(self.known().org()), body).unwrap().signed(by).unwrap()
    }

    /// The head in force, changed, rightly signed.
    pub fn head(&self, change: impl FnOnce(&mut Head)) -> Envelope {
        let mut head = self.known().head.head;
        change(&mut head);
        self.seal(&head, &self.signer())
    }

    /// Another head at the place of the one in force, which stays: its digest is the lower one.
    pub fn rival(&self) -> Envelope {
        let own = self.known().head.digest;
        let rival = |more: u64| self.head(|head| head.fresh_until = head.fresh_until + Seconds(more));
        (1..1_000).map(rival).find(|rival| rival.digest() > own).unwrap()
    }

    // ---- calls ----

    /// An operator's call, rightly signed for the line.
    pub fn call(&self, line: &mut Line, call: &Call) -> Reply {
        line.ask(Ask::Control, &signed_call("ann", call, line.exporter, &self.signer())).unwrap()
    }

    pub fn survey(&self) -> Survey {
        let mut line = Dial::to(self.port).line();
        let reply = self.call(&mut line, &Call::Survey { tip: None });
        match serde_json::from_value(reply.body).unwrap() {
            ControlAnswer::Survey(survey) => *survey,
            other => panic!("not a survey: {other:?}"),
        }
    }

    /// Publishes a map of these leaves, with their manifests, as the operators would. The version of its head.
    pub fn publish(&self, leaves: &[Leaf], manifests: &[Vec<u8>], change: impl FnOnce(&mut Head)) -> u64 {
        let map = MembersMap::of(leaves).unwrap();
        let mut sorted = leaves.to_vec();
        sorted.sort_by_key(Leaf::key);
        let blobs = sorted.iter().map(Leaf::bytes).chain(manifests.iter().cloned()).map(Bytes).collect();
        let mut line = Dial::to(self.port).line();
        let places = sorted.iter().map(Leaf::value).collect();
        for call in [Call::Stage { blobs }, Call::StageMap { root: map.root(), from: 0, leaves: places }] {
            assert_eq!(self.call(&mut line, &call).code(), "ok");
        }
        let mut version = 0;
        let head = self.head(|head| {
            head.version += 1;
            head.previous = vec![self.known().head.digest];
            head.issued_at = clock::now();
            head.cause = Cause::FleetPublish;
            head.members = Some(map.root());
            change(head);
            version = head.version;
        });
        assert_eq!(self.hand_in(vec![head]), ("ok".to_owned(), String::new()));
        version
    }

    /// Hands in what is signed, and returns the refusal's code and words.
    pub fn hand_in(&self, objects: Vec<Envelope>) -> (String, String) {
        let mut line = Dial::to(self.port).line();
        let correlation = random::correlation().unwrap();
        let reply = self.call(&mut line, &Call::Take { objects, correlation });
        (reply.code(), reply.body.get("why").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned())
    }
}

pub fn signed_call(signer: &str, call: &Call, exporter: [u8; 32], key: &EdKey) -> SignedCall {
    let call = serde_json::to_vec(call).unwrap();
    let signature = key.sign(&SignedCall::message(&exporter, &call)).unwrap();
    SignedCall { signer: signer.parse().unwrap(), call: Bytes(call), signature: Bytes(signature) }
}

pub fn endpoint(issuer: &Authority<Endpoint>, host: &str, root: CertificateDer<'static>) -> Own {
    let key = random::p256().unwrap();
    let request = certificate::make_request(&key).and_then(|der| certificate::read_request(&der)).unwrap();
    let hosts = [host.parse().unwrap()];
    let leaf = issuer.issue_endpoint(&hosts, &request, random::serial().unwrap(), a_day()).unwrap();
    Own { chain: vec![leaf, issuer.certificate().clone(), root], key }
}

pub fn a_day() -> Validity {
    Validity::from_now(clock::now(), Seconds::HOUR.times(23))
}

fn rcgen_key(key: &P256Key) -> rcgen::KeyPair {
    let der = pki_types::PrivatePkcs8KeyDer::from(key.pkcs8());
    rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ECDSA_P256_SHA256).unwrap()
}
