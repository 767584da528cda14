//! Machines that join: everything that can be made beforehand is, so that the load costs as little as it can.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::envelope::Envelope;
use identity::id::KeyId;
use identity::key::{EdKey, P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use org::invite::admission::{Purpose, Transcript};
use org::refusal::Refusal;
use pki_types::CertificateDer;
use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::enroll::{Challenge, EnrollRequest, Issued, RenewRequest, ReturnRequest, SvidRequest};
use wire::permit::Ask;
use wire::sync::{CheckIn, CheckedIn};
use wire::tls::OwnSvid;

use crate::client::joiner::{Ground, Joiner, prove};
use crate::client::stranger::Dial;
use crate::load::caller::{Caller, address};
use crate::place::Place;

/// Where to call, and how a stranger does it.
#[derive(Debug, Clone)]
pub struct Dialer {
    pub port: u16,
    pub config: Arc<ClientConfig>,
}

impl Dialer {
    pub fn new(port: u16) -> Self {
        Self { port, config: Dial::to(port).config() }
    }

    pub async fn open(&self, source: Ipv4Addr) -> Caller {
        Caller::dial(self.port, source, Arc::clone(&self.config)).await.unwrap()
    }
}

#[derive(Debug)]
pub struct Machine {
    joiner: Joiner,
    invite_key: EdKey,
    claim: Envelope,
    request: Vec<u8>,
    svid_key: KeyId,
}

impl Machine {
    pub fn new(code: &str, name: &str) -> Self {
        let joiner = Joiner::new(code, name);
        Self {
            invite_key: joiner.invite_key(),
            claim: joiner.signed_claim(),
            request: certificate::make_request(&joiner.svid_key).unwrap(),
            svid_key: certificate::key_id(joiner.svid_key.public()).unwrap(),
            joiner,
        }
    }

    pub const fn name(&self) -> &NodeName {
        &self.joiner.name
    }

    pub const fn node_key(&self) -> &P256Key {
        &self.joiner.node_key
    }

    pub fn principal(&self) -> Principal {
        self.joiner.principal()
    }

    /// Its SVID as a connection presents it.
    pub fn own(&self, chain: &[CertificateDer<'static>]) -> OwnSvid {
        let key = P256Key::from_pkcs8(self.joiner.svid_key.pkcs8()).unwrap();
        OwnSvid { chain: chain.to_vec(), key }
    }

    pub(crate) const fn svid_key(&self) -> KeyId {
        self.svid_key
    }

    pub(crate) fn svid(&self, ground: Ground, counter: u64) -> SvidRequest {
        let (org, principal) = (self.joiner.code.org, &self.joiner.principal());
        let terms = BindingTerms {
            org,
            principal,
            node: &self.joiner.name,
            svid_key: self.svid_key,
            not_after: ground.not_after,
        };
        let binding = terms.sign(&self.joiner.node_key).unwrap();
        SvidRequest { request: Bytes(self.request.clone()), binding, counter }
    }

    /// Joins; if the gateway says that it is busy, once more.
    pub async fn join(&self, caller: &mut Caller) -> Issued {
        loop {
            let ground = ground(caller).await.unwrap_or_else(|refusal| panic!("no challenge: {refusal}"));
            let by = (&self.invite_key as _, &self.joiner.node_key as _);
            let request = prove(self.claim.clone(), self.svid(ground, 1), ground, by);
            match caller.ask(Ask::Enroll, &request).await.unwrap() {
                Ok(issued) => return issued,
                Err(Refusal::Busy { .. }) => {}
                Err(refusal) => panic!("`{}` was refused: {refusal}", self.joiner.name),
            }
        }
    }

    /// Comes back with its SVID and shows its tip.
    pub async fn come_back(&self, port: u16, source: Ipv4Addr, issued: &Issued) -> Caller {
        let own = self.joiner.own(issued);
        let config = Dial::to(port).with(&own).config();
        let mut caller = Caller::dial(port, source, config).await.unwrap();
        let question = CheckIn { signers: 1, head: 1, tip: Some(issued.tip.clone()) };
        let answer: Result<CheckedIn, Refusal> = caller.ask(Ask::CheckIn, &question).await.unwrap();
        answer.unwrap_or_else(|refusal| panic!("`{}` cannot check in: {refusal}", self.joiner.name));
        caller
    }

    /// The same key again and again: to the gateway it is as much work as a new one, to the caller less.
    pub async fn renew(&self, caller: &mut Caller, counter: u64) {
        let ground = ground(caller).await.unwrap_or_else(|refusal| panic!("no challenge: {refusal}"));
        let request = RenewRequest { principal: self.joiner.principal(), svid: self.svid(ground, counter) };
        let answer: Result<Issued, Refusal> = caller.ask(Ask::Renew, &request).await.unwrap();
        answer.unwrap_or_else(|refusal| panic!("`{}` cannot renew: {refusal}", self.joiner.name));
    }

    /// A request for another SVID by node key and admission.
    pub(crate) fn return_request(&self, admission: &Envelope, ground: Ground, counter: u64) -> ReturnRequest {
        let (svid, nonce) = (self.svid(ground, counter), [8; 32]);
        let subject = admission.digest();
        let transcript =
            Transcript::new(ground.challenge, nonce, subject, &svid.request.0, &svid.binding, ground.exporter);
        let by_node = transcript.sign(Purpose::Return, &self.joiner.node_key).unwrap();
        ReturnRequest { admission: subject, nonce: Bytes(nonce.to_vec()), svid, by_node, tip: None }
    }

    /// A request under a code whose secret is wrong, as bytes.
    pub fn bad_request(&self) -> Vec<u8> {
        let wrong = ground::random::ed25519().unwrap();
        let nowhere = Ground { challenge: [0; 32], exporter: [0; 32], not_after: ground::clock::now() };
        let claim = self.joiner.claim_by(&[&wrong, &self.joiner.node_key]);
        let request: EnrollRequest =
            prove(claim, self.svid(nowhere, 1), nowhere, (&wrong as _, &self.joiner.node_key as _));
        serde_json::to_vec(&request).unwrap()
    }
}

/// So many join or connect at a time.
pub const AT_ONCE: usize = 64;

/// Machines that joined with one invite and came back once: members.
pub async fn join_all(place: &Place, nodes: usize, name: fn(usize) -> String) -> Vec<(usize, Machine, Issued)> {
    let code = place.code(&["--uses", "unlimited", "--ttl", "1h"]);
    let (dialer, turns) = (Dialer::new(place.port), Arc::new(Semaphore::new(AT_ONCE)));
    let mut tasks = JoinSet::new();
    for number in 0..nodes {
        let (code, dialer, turns) = (code.clone(), dialer.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let machine = Machine::new(&code, &name(number));
            let issued = machine.join(&mut dialer.open(address(number)).await).await;
            drop(machine.come_back(dialer.port, address(number), &issued).await);
            (number, machine, issued)
        });
    }
    tasks.join_all().await
}

pub async fn ground(caller: &mut Caller) -> Result<Ground, Refusal> {
    let told: Challenge = caller.ask(Ask::Challenge, &()).await.unwrap()?;
    let challenge = told.challenge.0.try_into().unwrap();
    Ok(Ground { challenge, exporter: caller.exporter, not_after: told.not_after })
}
