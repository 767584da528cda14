//! Each layer that refuses, provoked with the real programs: its own words, with the facts of both sides.

use std::collections::BTreeSet;

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::{Domain, Identity};
use identity::certificate::binding::BindingTerms;
use identity::certificate::{self, Validity, draft_svid};
use identity::id::Fingerprint;
use identity::key::Sign as _;
use identity::time::Seconds;
use org::invite::code::InviteCode;
use rustls::AlertDescription as Alert;
use trials::attack::thief::{Thief, a_day};
use trials::client::joiner::Joiner;
use trials::client::stranger::{Cut, Dial, Own};
use trials::faults::Clock;
use trials::place::{Place, ended, output, refused, stderr};

use super::{NewRoot, Turner};
use crate::gateways::hostile::Scene;

/// What was said so far: no two layers may say the same.
#[derive(Default)]
struct Said(BTreeSet<String>);

impl Said {
    fn check(&mut self, told: &str, words: &[&str]) {
        for word in words {
            assert!(told.contains(word), "`{word}` is missing: {told}");
        }
        assert!(self.0.insert(words[0].to_owned()), "another layer said so, too: {}", words[0]);
    }
}

#[test]
fn a_joiner_says_of_an_endpoint_what_it_saw_and_what_it_would_have_believed() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    let mut said = Said::default();
    let root = Fingerprint::of_certificate(Thief::of(&place).endpoint_root().as_ref()).to_string();
    let code: InviteCode = place.code(&["--uses", "9"]).parse().unwrap();

    let mut other = code.clone();
    other.endpoint_root = Fingerprint([9; 32]);
    let told = place.join("one", &other.encode());
    let words = ["the gateway's certificate does not lead to a root", &root, &Fingerprint([9; 32]).to_string()];
    ended(&told, 3, words[0]);
    said.check(&stderr(&told), &words);

    let mut other = code.clone();
    other.gateways = vec![format!("localhost:{}", place.port).parse().unwrap()];
    let told = place.join("one", &other.encode());
    ended(&told, 3, "is not for `localhost`");
    said.check(&stderr(&told), &["is not for `localhost`", "but for `127.0.0.1`"]);

    // Ten days on, the certificate of seven is over; ten days ago it was not there yet.
    let at = |shift: &str| {
        let clock = Clock::new(place.path("clock"));
        clock.set(shift);
        let mut command = place.node_command("one", &["join", "--name", "one"]);
        command.env("FREEHOLD_INVITE", code.encode());
        output(clock.under(command))
    };
    let told = at("+10d");
    said.check(&stderr(&told), &["the gateway's certificate expired at", "and here it is", "clock"]);
    let told = at("-10d");
    said.check(&stderr(&told), &["the gateway's certificate is valid only from", "and here it is", "clock"]);

    // The head mandates another key than the one that made the gateway's certificate.
    let turner = Turner::at(&place);
    let head = turner.head();
    let (key, version) = (head.mandates[0].endpoint_issuer, head.version + 1);
    turner.publish_head(|head| head.mandates[0].endpoint_issuer.0[0] ^= 1);
    let told = place.join("one", &code.encode());
    refused(&told, "no mandate in the head names the issuing key");
    let named = turner.head().mandates[0].endpoint_issuer;
    let words = ["names the issuing key", &key.to_string(), &format!("head {version} names {named} of `laptop`")];
    said.check(&stderr(&told), &words);
}

/// A member's machine, and the gateway's disk.
struct Forger {
    scene: Scene,
    thief: Thief,
    member: Joiner,
}

impl Forger {
    /// The member's own SVID, changed, with the gateway's key.
    fn forge(&self, validity: Validity, twist: impl FnOnce(&mut rcgen::CertificateParams)) -> Own {
        let (principal, node) = (self.member.principal(), "web-1".parse().unwrap());
        let svid_key = certificate::key_id(self.member.svid_key.public()).unwrap();
        let not_after = validity.not_after;
        let terms = BindingTerms { org: self.member.code.org, principal: &principal, node: &node, svid_key, not_after };
        let binding = terms.sign(&self.member.node_key).unwrap();
        let mut draft = draft_svid(&principal, &binding, random::serial().unwrap(), validity).unwrap();
        twist(&mut draft);
        self.thief.sign_draft(&draft, &self.member.svid_key)
    }

    /// Refused by an alert, and the gateway's log has the facts.
    fn check(&self, said: &mut Said, own: &Own, alert: Alert, words: &[&str]) {
        let before = self.scene.log().len();
        let mut line = Dial::to(self.scene.port()).with(own).line();
        assert_eq!(line.reply(), Err(Cut(Some(alert))), "{words:?}");
        said.check(&self.scene.log()[before..], words);
    }
}

#[test]
fn a_gateway_notes_of_an_svid_what_was_shown_and_what_it_goes_by() {
    let scene = Scene::new();
    let (member, _) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let thief = Thief::of(&scene.place);
    let (turner, mut said) = (Turner::at(&scene.place), Said::default());
    let forger = Forger { scene, thief, member };
    let now = clock::now();
    let root = forger.thief.identity_root();
    let print = Fingerprint::of_certificate(root.certificate().as_ref()).to_string();

    let unbound = forger.forge(a_day(), |draft| draft.custom_extensions.clear());
    forger.check(&mut said, &unbound, Alert::AccessDenied, &["carries no binding", "spiffe://harbor/node/web-1"]);
    let past = Validity { not_before: now - Seconds::DAY, not_after: now - Seconds::HOUR };
    let until = past.not_after.to_string();
    let words = ["the SVID expired at", &until, "and here it is"];
    forger.check(&mut said, &forger.forge(past, |_| {}), Alert::CertificateExpired, &words);
    let future = Validity { not_before: now + Seconds::HOUR, not_after: now + Seconds::HOUR.times(5) };
    let words = ["the SVID is valid only from", &future.not_before.to_string(), "and here it is"];
    forger.check(&mut said, &forger.forge(future, |_| {}), Alert::BadCertificate, &words);

    let (harbor, gateway) = ("harbor".parse().unwrap(), forger.thief.survey().gateway);
    let key = random::p256().unwrap();
    let certify = |by: &Authority<Identity>| {
        by.certify_issuer(&harbor, &gateway, &key, random::serial().unwrap(), a_day()).unwrap()
    };
    let issued_by = |authority: &Authority<Identity>| {
        let good = forger.forge(a_day(), |_| {});
        let leaf = certificate::read(&good.chain[0]).unwrap();
        let request = certificate::make_request(&good.key).and_then(|der| certificate::read_request(&der)).unwrap();
        let made = authority.issue_svid(
            &forger.member.principal(),
            &request,
            &leaf.binding.unwrap(),
            random::serial().unwrap(),
            a_day(),
        );
        Own { chain: vec![made.unwrap(), authority.certificate().clone()], key: good.key }
    };
    let unmandated = certify(&root);
    let head = turner.head();
    let words = [
        "no mandate in the head names the issuing key",
        &unmandated.key_id().to_string(),
        &format!("head {} names {}", head.version, head.mandates[0].identity_issuer),
    ];
    forger.check(&mut said, &issued_by(&unmandated), Alert::AccessDenied, &words);
    let stranger = NewRoot::<Identity>::make();
    let foreign = certify(&stranger.0);
    let words = ["the SVID does not lead to a root", &foreign.key_id().to_string(), &format!("version 1 ({print})")];
    forger.check(&mut said, &issued_by(&foreign), Alert::UnknownCA, &words);

    // A stolen root, after it was retired: the log says which version it was.
    let good = forger.forge(a_day(), |_| {});
    let issuer = stranger.certify(gateway.as_str(), &turner.issuing_key::<Identity>());
    let version = turner.publish(&stranger, &[issuer]);
    turner.activate(Domain::Identity, version);
    turner.retire(Domain::Identity, 1);
    let words = [
        &format!("it leads to root version 1 ({print})")[..],
        &format!("trusted here: version 2 ({})", stranger.fingerprint()),
    ];
    forger.check(&mut said, &good, Alert::UnknownCA, &words);
}

#[test]
fn a_node_that_is_refused_by_an_alert_says_what_its_own_svid_leads_to_and_what_is_trusted() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    place.joined("one");
    let turner = Turner::at(&place);
    let next = NewRoot::<Identity>::make();
    let version = turner.publish(&next, &[next.certify("laptop", &turner.issuing_key::<Identity>())]);
    turner.activate(Domain::Identity, version);
    turner.retire(Domain::Identity, 1);
    let before = Fingerprint::of_certificate(Thief::of(&place).identity_root().certificate().as_ref());
    let told = place.node("one", &["doctor"], "");
    let words = format!("{}{}", trials::place::stdout(&told), stderr(&told));
    for word in [
        "did not accept this machine's certificate",
        "it leads to a root that the gateway does not trust",
        &format!("it leads to root version 1 ({before})"),
        &format!("trusts version 2 ({})", next.fingerprint()),
    ] {
        assert!(words.contains(word), "`{word}` is missing: {words}");
    }
}
