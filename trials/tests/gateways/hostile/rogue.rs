//! A gateway that was taken over, mandate, keys and all: a joiner still takes from it only what holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::{clock, random};
use identity::bundle::{Domain, Identity};
use identity::certificate::{self, draft_svid};
use identity::envelope::{Envelope, Payload as _};
use identity::key::{P256Key, Sign as _};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::invite::Invite;
use org::invite::admission::Claim;
use org::ledger::entry::{Action, Entry};
use org::ledger::frontier::Frontier;
use org::ledger::replica::carried;
use serde_json::Value;
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::intruder::Intruder;
use trials::attack::thief::{Thief, a_day};
use trials::client::joiner::Joiner;
use trials::client::stranger::Dial;
use trials::place::{Place, stderr, stdout, succeeded};
use wire::control::{Call, ControlAnswer};
use wire::enroll::{Challenge, EnrollRequest, Issued};
use wire::permit::Ask;

/// What the rogue does to an honest answer before it sends it.
trait Twist: Fn(&Thief, &EnrollRequest, &mut Issued) + Send + 'static {}
impl<T: Fn(&Thief, &EnrollRequest, &mut Issued) + Send + 'static> Twist for T {}

/// Everything that a thief needs to stand in the gateway's place.
struct Rogue {
    place: Place,
    code: String,
    thief: Arc<Thief>,
    papers: Papers,
    /// What the real gateway shows of its trust, by path.
    trust: Vec<(&'static str, Value)>,
    invite: Envelope,
}

impl Rogue {
    fn new() -> Self {
        let place = Place::founded(&[]);
        let code = place.code(&[]);
        let thief = Arc::new(Thief::of(&place));
        let gateway = place.serve();
        let mut line = Dial::to(place.port).line();
        let both = [Ask::Trust(Domain::Identity), Ask::Trust(Domain::Endpoint)];
        let trust = both.map(|ask| (ask.path(), line.ask(ask, &()).unwrap().body)).to_vec();
        let reply = thief.call(&mut line, &Call::Beyond { frontier: Frontier::default() });
        let ControlAnswer::Beyond { entries, .. } = serde_json::from_value(reply.body).unwrap() else {
            panic!("no entries")
        };
        let known = thief.known();
        let invite = entries.iter().find_map(|entry| {
            let entry: Entry = entry.peek(Some(known.org())).unwrap();
            carried(&entry.action).find(|carried| carried.kind() == Invite::KIND).cloned()
        });
        gateway.kill();
        Self { place, code, thief, papers: Papers::of(known), trust, invite: invite.unwrap() }
    }

    /// What an honest gateway would answer, but for the twist.
    fn issue<T: Twist>(&self, twist: T) -> impl Fn(&[u8]) -> Value + use<T> {
        let (thief, invite) = (Arc::clone(&self.thief), self.invite.clone());
        let ledger = Intruder::at(self.place.org().join("gateway"));
        move |body| {
            let request: EnrollRequest = serde_json::from_slice(body).unwrap();
            let known = thief.known();
            let claim: Claim = request.claim.peek(Some(known.org())).unwrap();
            let admit =
                Action::NodeAdmit { claim: request.claim.clone(), invite: Some(invite.clone()), approval: None };
            let principal = identity::principal::Principal::node(&known.founding.record.name, &claim.name);
            let key = certificate::read_request(&request.svid.request.0).unwrap();
            let serial = random::serial().unwrap();
            let issuer = thief.issuer::<Identity>();
            let leaf = issuer.issue_svid(&principal, &key, &request.svid.binding, serial, a_day()).unwrap();
            let mut answer = Issued {
                admission: ledger.says(admit).envelope,
                svid: [&leaf, issuer.certificate()].map(|der| Bytes(der.as_ref().to_vec())).to_vec(),
                tip: invite.clone(),
            };
            twist(&thief, &request, &mut answer);
            serde_json::to_value(answer).unwrap()
        }
    }

    /// The join fails for this reason, and nothing of what the gateway said is kept. Returns whether it was proved to.
    fn check(&self, not_after: Timestamp, enroll: impl Fn(&[u8]) -> Value + Send + 'static, why: &str) -> bool {
        let challenge = Challenge { challenge: Bytes(vec![1; 32]), not_after };
        let trust = self.trust.clone();
        let proved = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&proved);
        let answer = move |path: &str, body: &[u8]| {
            if path == Ask::Challenge.path() {
                return Some(serde_json::to_value(&challenge).unwrap());
            }
            if path == Ask::Enroll.path() {
                heard.store(true, Ordering::Relaxed);
                return Some(enroll(body));
            }
            trust.iter().find(|(known, _)| *known == path).map(|(_, documents)| documents.clone())
        };
        let own = self.thief.endpoint("127.0.0.1");
        let _impostor = Impostor::answering(self.place.port, &own, self.papers.clone(), answer);
        let output = self.place.join("web-1", &self.code);
        let told = stderr(&output);
        assert!(!output.status.success(), "it joined: {}", stdout(&output));
        assert!(told.contains(why), "expected `{why}` in: {told}");
        for file in ["node.json", "known.json", "admission.json", "svid.pem", "trust/identity.pem"] {
            assert!(!self.place.root("web-1").join("harbor").join(file).exists(), "{why}: `{file}` was kept");
        }
        proved.load(Ordering::Relaxed)
    }

    fn check_issued(&self, twist: impl Twist, why: &str) {
        assert!(self.check(a_day().not_after, self.issue(twist), why), "{why}: it was not asked");
    }
}

fn der(own: &trials::client::stranger::Own) -> Vec<Bytes> {
    own.chain.iter().map(|der| Bytes(der.as_ref().to_vec())).collect()
}

#[test]
fn a_gateway_cannot_hand_a_joiner_a_certificate_that_is_not_its_own() {
    let rogue = Rogue::new();
    let web = || "spiffe://harbor/node/web-1".parse().unwrap();
    let draft = move |request: &EnrollRequest| {
        draft_svid(&web(), &request.svid.binding, random::serial().unwrap(), a_day()).unwrap()
    };
    rogue.check_issued(
        move |thief, request, issued| {
            issued.svid = der(&thief.sign_draft(&draft(request), &random::p256().unwrap()));
        },
        "binding does not hold",
    );
    rogue.check_issued(
        move |thief, request, issued| {
            let mut bare = draft(request);
            bare.custom_extensions.clear();
            issued.svid = der(&thief.sign_draft(&bare, &random::p256().unwrap()));
        },
        "carries no binding",
    );
    rogue.check_issued(|_, _, issued| issued.svid.truncate(1), "not made by an issuing key");
    // A whole and valid SVID of another machine, key and all.
    let other = Arc::new(Joiner::new(&rogue.code, "web-1"));
    rogue.check_issued(
        move |thief, _, issued| {
            let binding = other.svid(a_day().not_after).binding;
            let draft = draft_svid(&other.principal(), &binding, random::serial().unwrap(), a_day()).unwrap();
            issued.svid = der(&thief.sign_draft(&draft, &P256Key::from_pkcs8(other.svid_key.pkcs8()).unwrap()));
        },
        "the certificate is for somebody else",
    );
}

#[test]
fn a_gateway_cannot_hand_a_joiner_an_admission_that_is_not_its_own() {
    let rogue = Rogue::new();
    let reseal = |thief: &Thief, issued: &mut Issued, change: &dyn Fn(&mut Envelope, &mut Option<Envelope>)| {
        let mut entry: Entry = issued.admission.peek(Some(thief.known().org())).unwrap();
        let Action::NodeAdmit { claim, invite, .. } = &mut entry.action else { panic!("no admission") };
        change(claim, invite);
        issued.admission = thief.seal(&entry, &thief.voice());
    };
    let unmandated = "the admission is not by a mandated gateway";
    rogue.check_issued(
        |thief, _, issued| {
            let entry: Entry = issued.admission.peek(Some(thief.known().org())).unwrap();
            issued.admission = thief.seal(&entry, &random::ed25519().unwrap());
        },
        "the `entry` carries 0 of the 1 signatures that it needs",
    );
    // In a voice that no head has given to a gateway.
    rogue.check_issued(
        |thief, _, issued| {
            let (mut entry, stray) =
                (issued.admission.peek::<Entry>(Some(thief.known().org())).unwrap(), random::ed25519().unwrap());
            entry.voice = stray.public();
            issued.admission = thief.seal(&entry, &stray);
        },
        unmandated,
    );
    // An entry of its own that lets nobody in.
    rogue.check_issued(
        |thief, request, issued| {
            let (mut entry, claim): (Entry, Claim) = (
                issued.admission.peek(Some(thief.known().org())).unwrap(),
                request.claim.peek(Some(thief.known().org())).unwrap(),
            );
            entry.action = Action::NodeJoin { node_key: claim.node_key.digest(), name: claim.name };
            issued.admission = thief.seal(&entry, &thief.voice());
        },
        "it is no admission",
    );
    rogue.check_issued(
        move |thief, _, issued| reseal(thief, issued, &|_, invite| *invite = None),
        "it names no authority that fits its claim",
    );
    // The joiner's claim with a role that it did not ask for: the node key did not sign that.
    rogue.check_issued(
        move |thief, _, issued| {
            reseal(thief, issued, &|claim, _| {
                let mut more: Claim = claim.peek(Some(thief.known().org())).unwrap();
                more.roles.insert("admin".parse().unwrap());
                *claim = thief.seal(&more, &thief.signer());
            });
        },
        "signatures that it needs",
    );
    let other = Arc::new(Joiner::new(&rogue.code, "web-1"));
    rogue.check_issued(
        move |thief, _, issued| reseal(thief, issued, &|claim, _| *claim = other.signed_claim()),
        "the admission is another machine's",
    );
}

#[test]
fn a_joiner_vouches_for_no_longer_than_the_mandate_allows() {
    let rogue = Rogue::new();
    let honest = || rogue.issue(|_, _, _| {});
    let never = clock::now() + Seconds::DAY.times(3650);
    assert!(!rogue.check(never, honest(), "longer than its mandate allows"), "it signed a binding for ten years");
    let tomorrow = clock::now() + Seconds::DAY.times(2);
    assert!(!rogue.check(tomorrow, honest(), "longer than its mandate allows"), "it signed a binding for two days");
    // And the invite is still good for the real gateway.
    let _gateway = rogue.place.serve();
    succeeded(&rogue.place.join("web-1", &rogue.code));
}
