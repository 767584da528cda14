//! What a stranger sends to join: read, considered and proved, as a gateway does it.

use std::sync::LazyLock;

use identity::certificate::binding::{Binding, BindingTerms};
use identity::certificate::{make_request, read_request};
use identity::id::{Digest, KeyId};
use identity::principal::Principal;
use identity::text::Bytes;
use identity::time::Seconds;
use org::enroll::{Attempt, EnrollOutcome, check_name_is_free, consider};
use org::invite::Approval;
use org::invite::admission::{Claim, ClaimAuthority, Purpose, Transcript};
use wire::enroll::{EnrollRequest, SvidRequest};

use crate::cast::{NOW, ed, node_key, public};
use crate::harbor::{HARBOR, MACHINE, claim, low_claim};
use crate::laws::{is_an_envelope, opens_only_as_itself};
use crate::sealing::{self, Text, name_of};

const CHALLENGE: [u8; 32] = [8; 32];
const EXPORTER: [u8; 32] = [9; 32];
/// Larger ones are refused before they are parsed.
const LARGEST: usize = 32 << 10;

/// A request with a proof that holds, made once: mutations of it must not.
static PROVED: LazyLock<EnrollRequest> =
    LazyLock::new(|| serde_json::from_str(include_str!("enroll_request.json")).expect("a stored request"));

pub fn seeds() -> Vec<Vec<u8>> {
    let machine = Claim { authority: ClaimAuthority::Invite(MACHINE), ..claim(2, "web-2") };
    let claims = [(claim(1, "web-1"), "invite-1 node-1"), (low_claim(1), "node-1"), (machine, "node-2")];
    let mut all = vec![serde_json::to_vec(&*PROVED).expect("JSON")];
    for (claim, hands) in claims {
        let sealed = HARBOR.sealed(&claim, &hands.split(' ').collect::<Vec<_>>());
        let bare = EnrollRequest { claim: sealed, by_invite: None, by_node: Bytes(vec![]), ..PROVED.clone() };
        let mut text = Text::default();
        text.add(Some(HARBOR.founding.id), &claim, hands, &[]);
        let json = serde_json::to_string(&bare).expect("JSON");
        text.add_raw("request", &json.replace(&name_of(&bare.claim, 0).0, "\"@0\""));
        all.push(text.bytes());
    }
    all
}

/// A request with its proof, on a connection whose challenge and exporter are known: how the stored one was made.
pub fn proved() -> EnrollRequest {
    let (node, name) = (node_key(1), "web-1".parse().expect("a name"));
    let request = make_request(&node_key(2)).expect("a request");
    let svid_key = read_request(&request).expect("our own").id;
    let principal = Principal::node(&HARBOR.founding.record.name, &name);
    let not_after = NOW + Seconds::DAY;
    let terms = BindingTerms { org: HARBOR.founding.id, principal: &principal, node: &name, svid_key, not_after };
    let binding = terms.sign(&node).expect("a key");
    let claim = HARBOR.claim(1, "web-1");
    let svid = SvidRequest { request: Bytes(request), binding, counter: 1 };
    let mut made = EnrollRequest {
        claim,
        nonce: Bytes(vec![5; 32]),
        svid,
        by_invite: None,
        by_node: Bytes(vec![]),
        facts: None,
        wait: Seconds(0),
    };
    let transcript = transcript(&made).expect("a nonce of 32 bytes");
    made.by_invite = Some(transcript.sign(Purpose::Enroll, &ed("invite-1")).expect("a key"));
    made.by_node = transcript.sign(Purpose::Enroll, &node).expect("a key");
    made
}

fn transcript(request: &EnrollRequest) -> Option<Transcript> {
    let nonce = request.nonce.0.as_slice().try_into().ok()?;
    let svid = &request.svid;
    Some(Transcript::new(CHALLENGE, nonce, request.claim.digest(), &svid.request.0, &svid.binding, EXPORTER))
}

/// The JSON itself, or a text whose last part is the JSON around a claim that is signed here.
pub fn check(data: &[u8]) -> bool {
    if data.first() == Some(&b'{') {
        return hear(data);
    }
    sealing::read(data).is_some_and(|parts| parts.last().is_some_and(|part| hear(&part.payload)))
}

fn hear(json: &[u8]) -> bool {
    if json.len() > LARGEST {
        return false;
    }
    let Ok(request) = wire::http::parse::<EnrollRequest>(json) else {
        return false;
    };
    let written = serde_json::to_vec(&request).expect("what was read can be written");
    let again: EnrollRequest = wire::http::parse(&written).expect("and read again");
    assert_eq!(serde_json::to_vec(&again).expect("again"), written, "one written form");
    is_an_envelope(&request.claim, None);
    let binding = &request.svid.binding;
    assert_eq!(Binding::from_der(&binding.to_der()).as_ref(), Some(binding));
    let key = read_request(&request.svid.request.0);
    let proof = check_proof(&request);
    let Some(claim) = opens_only_as_itself::<Claim>(&request.claim, Some(HARBOR.founding.id)) else {
        return false;
    };
    if let Ok(key) = &key {
        check_binding(&request, &claim, key.id);
    }
    check_verdict(&claim, request.claim.digest()) || proof
}

/// A proof that holds is the one that was made: for this claim, nonce, request and binding.
fn check_proof(request: &EnrollRequest) -> bool {
    let Some(found) = transcript(request) else {
        return false;
    };
    let (invite, node) = (public("invite-1"), public("node-1"));
    let by_invite = request.by_invite.as_ref();
    let holds = by_invite.is_some_and(|signature| found.is_signed(Purpose::Enroll, invite, signature))
        || found.is_signed(Purpose::Enroll, node, &request.by_node);
    if holds {
        let made = transcript(&PROVED).expect("a nonce");
        let parts = |at: &Transcript| (at.nonce, at.subject, at.request, at.binding);
        assert_eq!(parts(&found), parts(&made), "a proof for something else");
    }
    assert!(!found.is_signed(Purpose::Return, node, &request.by_node), "a proof for another purpose");
    holds
}

fn check_binding(request: &EnrollRequest, claim: &Claim, svid_key: KeyId) {
    let binding = &request.svid.binding;
    let principal = Principal::node(&HARBOR.founding.record.name, &claim.name);
    if binding.check(HARBOR.founding.id, &principal, svid_key).is_ok() {
        assert_eq!(binding, &PROVED.svid.binding, "a binding that nobody made");
        assert_eq!(binding.node, claim.name);
    }
}

/// Whoever would be let in stays within the invite.
fn check_verdict(claim: &Claim, claimed: Digest) -> bool {
    let gateway = "gw-1".parse().expect("a name");
    let source = "10.1.2.3".parse().expect("an address");
    match consider(&HARBOR.state, Attempt { claim, claimed, source, gateway: &gateway, now: NOW }) {
        Ok(verdict @ (EnrollOutcome::Admit { .. } | EnrollOutcome::Wait { .. })) => {
            let bounds = &verdict.invite().invite;
            assert_eq!(matches!(verdict, EnrollOutcome::Wait { .. }), bounds.approval == Approval::Human);
            assert_eq!(claim.is_low(), !bounds.kind.is_proven());
            assert!(claim.labels.is_subset(&bounds.labels) && claim.roles.is_subset(&bounds.roles));
            assert!(claim.name.as_str().starts_with(if claim.is_low() { "lab-" } else { "web-" }));
            assert_eq!(claim.replaces, None, "nobody is here who could be replaced");
            assert_eq!(check_name_is_free(&HARBOR.state, claim, None), Ok(()));
            let late = Attempt { claim, claimed, source, gateway: &gateway, now: bounds.expires_at };
            assert!(consider(&HARBOR.state, late).is_err(), "an invite dies at its expiry second");
            let away = Attempt { source: "192.0.2.1".parse().expect("an address"), ..late };
            assert!(consider(&HARBOR.state, Attempt { now: NOW, ..away }).is_err(), "from another network");
            true
        }
        Ok(EnrollOutcome::Again { .. }) => panic!("nobody has joined here yet"),
        Err(refusal) => {
            let json = serde_json::to_vec(&refusal).expect("a refusal travels");
            assert_eq!(serde_json::from_slice::<org::refusal::Refusal>(&json).expect("and arrives"), refusal);
            false
        }
    }
}
