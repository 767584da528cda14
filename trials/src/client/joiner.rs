//! A machine that joins by hand: it holds its keys in memory and can be made to prove anything.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use ground::random;
use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::envelope::Envelope;
use identity::key::{EdKey, P256Key, Sign};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::invite::admission::{Claim, Purpose, SealKey, Transcript};
use org::invite::code::InviteCode;
use org::ledger::entry::Action;
use org::state::State;
use pki_types::CertificateDer;
use wire::enroll::{Challenge, EnrollRequest, Issued, RenewRequest, ReturnRequest, SvidRequest};
use wire::permit::Ask;
use wire::sync::CheckIn;

use crate::client::stranger::{Dial, Line, Own, Reply};

#[derive(Debug)]
pub struct Joiner {
    pub code: InviteCode,
    pub name: NodeName,
    pub node_key: P256Key,
    pub svid_key: P256Key,
    pub counter: u64,
}

/// What a proof stands on: a challenge and the connection it was given on.
#[derive(Debug, Clone, Copy)]
pub struct Ground {
    pub challenge: [u8; 32],
    pub exporter: [u8; 32],
    pub not_after: Timestamp,
}

impl Ground {
    /// Asks for a challenge.
    pub fn on(line: &mut Line) -> Self {
        let reply = line.ask(Ask::Challenge, &()).unwrap();
        assert_eq!(reply.code(), "ok");
        Self::of(reply, line)
    }

    /// On a challenge that was given.
    pub fn of(reply: Reply, line: &Line) -> Self {
        let told: Challenge = serde_json::from_value(reply.body).unwrap();
        Self { challenge: told.challenge.0.try_into().unwrap(), exporter: line.exporter, not_after: told.not_after }
    }
}

/// A request to join, its transcript signed by what should be the invite's key and the node key.
pub fn prove(
    claim: Envelope,
    svid: SvidRequest,
    ground: Ground,
    (invite_key, node_key): (&dyn Sign, &dyn Sign),
) -> EnrollRequest {
    let nonce = [7; 32];
    let (request, binding) = (&svid.request.0, &svid.binding);
    let transcript = Transcript::new(ground.challenge, nonce, claim.digest(), request, binding, ground.exporter);
    EnrollRequest {
        nonce: Bytes(nonce.to_vec()),
        by_invite: Some(transcript.sign(Purpose::Enroll, invite_key).unwrap()),
        by_node: transcript.sign(Purpose::Enroll, node_key).unwrap(),
        claim,
        svid,
        facts: None,
        wait: Seconds(0),
    }
}

impl Joiner {
    pub fn new(code: &str, name: &str) -> Self {
        Self {
            code: code.parse().unwrap(),
            name: name.parse().unwrap(),
            node_key: random::p256().unwrap(),
            svid_key: random::p256().unwrap(),
            counter: 1,
        }
    }

    pub fn invite_key(&self) -> EdKey {
        self.code.ticket.key(self.code.org).unwrap()
    }

    pub fn principal(&self) -> Principal {
        Principal::node(&self.code.name, &self.name)
    }

    pub fn claim(&self) -> Claim {
        let (authority, node_key) = (self.code.ticket.authority(), self.node_key.public());
        Claim { seal_key: SealKey([9; 32]), ..testorg::claim(authority, node_key, self.name.as_str()) }
    }

    /// The claim, signed by whom one likes.
    pub fn claim_by(&self, hands: &[&dyn Sign]) -> Envelope {
        let mut envelope = Envelope::seal(Some(self.code.org), &self.claim()).unwrap();
        for hand in hands {
            envelope.sign(*hand).unwrap();
        }
        envelope
    }

    pub fn signed_claim(&self) -> Envelope {
        self.claim_by(&[&self.invite_key(), &self.node_key])
    }

    /// What a gateway writes that lets it in, whatever that counts for.
    pub fn let_in_by(&self, state: &State) -> Action {
        let record = self.code.ticket.authority().invite().and_then(|id| state.invite(id));
        let invite = record.map(|(_, record)| record.envelope.clone());
        Action::NodeAdmit { claim: self.signed_claim(), invite, approval: None }
    }

    pub fn svid(&self, not_after: Timestamp) -> SvidRequest {
        self.svid_for(&self.principal(), not_after)
    }

    pub fn svid_for(&self, principal: &Principal, not_after: Timestamp) -> SvidRequest {
        let request = certificate::make_request(&self.svid_key).unwrap();
        let svid_key = certificate::key_id(self.svid_key.public()).unwrap();
        let terms = BindingTerms { org: self.code.org, principal, node: &self.name, svid_key, not_after };
        SvidRequest { request: Bytes(request), binding: terms.sign(&self.node_key).unwrap(), counter: self.counter }
    }

    /// The honest request.
    pub fn request(&self, ground: Ground) -> EnrollRequest {
        prove(self.signed_claim(), self.svid(ground.not_after), ground, (&self.invite_key(), &self.node_key))
    }

    /// Joins honestly, up to `member`.
    pub fn join(code: &str, name: &str, port: u16) -> (Self, Issued) {
        let joiner = Self::new(code, name);
        let mut line = Dial::to(port).line();
        let ground = Ground::on(&mut line);
        let reply = line.ask(Ask::Enroll, &joiner.request(ground)).unwrap();
        assert_eq!(reply.code(), "ok");
        let issued: Issued = serde_json::from_value(reply.body).unwrap();
        let own = joiner.own(&issued);
        assert_eq!(Dial::to(port).with(&own).line().code(Ask::CheckIn, &check_in()), "ok");
        (joiner, issued)
    }

    pub fn own(&self, issued: &Issued) -> Own {
        let key = P256Key::from_pkcs8(self.svid_key.pkcs8()).unwrap();
        Own { chain: issued.svid.iter().map(|der| CertificateDer::from(der.0.clone())).collect(), key }
    }

    pub fn renew(&self, ground: Ground) -> RenewRequest {
        RenewRequest { principal: self.principal(), svid: self.svid(ground.not_after) }
    }

    /// A request to return under an admission, which may be another's.
    pub fn come_back(&self, admission: &Envelope, ground: Ground) -> ReturnRequest {
        let (svid, nonce) = (self.svid(ground.not_after), [8; 32]);
        let subject = admission.digest();
        let transcript =
            Transcript::new(ground.challenge, nonce, subject, &svid.request.0, &svid.binding, ground.exporter);
        let by_node = transcript.sign(Purpose::Return, &self.node_key).unwrap();
        ReturnRequest { admission: subject, nonce: Bytes(nonce.to_vec()), svid, by_node, tip: None }
    }
}

pub const fn check_in() -> CheckIn {
    CheckIn { signers: 1, head: 1, tip: None }
}
