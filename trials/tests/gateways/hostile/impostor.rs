//! Gateways that are none. Whatever keys an impostor stole, a joiner asks it nothing and keeps nothing of it.

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::Endpoint;
use identity::head::Head;
use identity::id::KeyId;
use identity::key::Sign as _;
use identity::signers::{Quorum, Signer, Succession};
use identity::time::Seconds;
use serde_json::Value;
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, a_day, endpoint};
use trials::client::stranger::Own;
use trials::place::{Place, Running, json, refused, stderr, succeeded, until};

/// An org whose gateway does not run, an invite, and what an impostor could show.
struct Stage {
    place: Place,
    thief: Thief,
    code: String,
    papers: Papers,
    own: Own,
}

impl Stage {
    fn new() -> Self {
        let place = Place::founded(&[]);
        let thief = Thief::of(&place);
        succeeded(&place.freehold(&["refresh"]));
        let code = place.code(&[]);
        let (papers, own) = (Papers::of(thief.known()), thief.endpoint("127.0.0.1"));
        Self { place, thief, code, papers, own }
    }

    /// The join is refused for this reason; nothing was asked of the impostor, nothing is left on disk.
    fn check(&self, own: &Own, papers: Papers, why: &str) {
        let impostor = Impostor::serve(self.place.port, own, papers);
        let told = self.place.join("web-1", &self.code);
        refused(&told, why);
        assert!(stderr(&told).contains("\nhint: "), "{why}: {}", stderr(&told));
        assert!(!impostor.was_believed(), "{why}");
        assert!(!self.place.root("web-1").join("harbor").exists(), "{why}: something was left on disk");
    }

    /// With a head that the real signer signed, changed.
    fn check_head(&self, change: impl FnOnce(&mut Head), why: &str) {
        self.check(&self.own, Papers { head: self.thief.head(change), ..self.papers.clone() }, why);
    }
}

#[test]
fn a_joiner_believes_no_gateway_under_another_root_name_or_founding() {
    let stage = Stage::new();
    let org = stage.thief.known().founding.record.name;
    let (root_key, issuer_key) = (random::p256().unwrap(), random::p256().unwrap());
    let root = Authority::<Endpoint>::root(&org, &root_key, random::serial().unwrap(), a_day()).unwrap();
    let gateway = "gw-1".parse().unwrap();
    let issuer = root.certify_issuer(&org, &gateway, &issuer_key, random::serial().unwrap(), a_day()).unwrap();
    let own = endpoint(&issuer, "127.0.0.1", root.certificate().clone());
    let unknown_root = "does not lead to a root that is trusted here";
    stage.check(&own, stage.papers.clone(), unknown_root);
    // The pinned root is public: to send it along proves nothing.
    let borrowed = endpoint(&issuer, "127.0.0.1", stage.thief.endpoint_root());
    stage.check(&borrowed, stage.papers.clone(), unknown_root);
    let elsewhere = stage.thief.endpoint("gw.example");
    stage.check(&elsewhere, stage.papers.clone(), "the certificate is not for `127.0.0.1`");

    let other = Thief::of(&Place::founded(&[])).known();
    stage.check(&stage.own, Papers::of(other), "this is the founding record of another org");
}

#[test]
fn a_joiner_believes_no_signers_but_those_that_the_founding_leads_to() {
    let stage = Stage::new();
    let (eve, known) = (random::ed25519().unwrap(), stage.thief.known());
    let quorum = Quorum::new(1, vec![Signer { name: "eve".parse().unwrap(), key: eve.public() }]).unwrap();
    let succession = Succession { version: 2, previous: known.signers.id, also: Vec::new(), quorum, head: None };
    let own_chain = stage.thief.seal(&succession, &eve);
    let mut head = known.head.head.clone();
    (head.signers.version, head.signers.id) = (2, own_chain.digest());
    let own_head = stage.thief.seal(&head, &eve);
    let papers = Papers { signers: vec![own_chain], head: own_head, ..stage.papers.clone() };
    stage.check(&stage.own, papers, "signer set 2 is not signed by the threshold of set 1");

    let own_head = stage.thief.seal(&known.head.head, &eve);
    let papers = Papers { head: own_head, ..stage.papers.clone() };
    stage.check(&stage.own, papers, "the `head` carries 0 of the 1 signatures that it needs");
    let papers = Papers { head: stage.papers.founding.clone(), ..stage.papers.clone() };
    stage.check(&stage.own, papers, "expected a signed `head`, got `founding`");
}

#[test]
fn a_joiner_refuses_a_head_that_is_old_stale_or_from_the_future() {
    let stage = Stage::new();
    let now = clock::now();
    stage.check_head(|head| head.version = 1, "head 1 is older than head 2, which is known to exist");
    stage.check_head(|head| head.fresh_until = now - Seconds(1), "the head is no longer fresh");
    stage.check_head(|head| head.issued_at = now + Seconds::DAY, "which is in the future here");
}

#[test]
fn a_joiner_refuses_a_gateway_that_the_head_does_not_mandate() {
    let stage = Stage::new();
    let now = clock::now();
    let nobody = KeyId([1; 32]);
    let unnamed = "no mandate in the head names the issuing key";
    stage.check_head(|head| head.mandates.clear(), unnamed);
    stage.check_head(|head| head.mandates.iter_mut().for_each(|mandate| mandate.endpoint_issuer = nobody), unnamed);
    let elsewhere = || vec!["gw.example".parse().unwrap()];
    stage.check_head(|head| head.mandates.iter_mut().for_each(|mandate| mandate.hosts = elsewhere()), "does not cover");
    stage.check_head(|head| head.mandates.iter_mut().for_each(|mandate| mandate.not_after = now), "not in force");
    let revoke = |head: &mut Head| {
        let keys: Vec<_> = head.mandates.iter().map(|mandate| mandate.endpoint_issuer).collect();
        head.revocations.issuing_keys.extend(keys);
    };
    stage.check_head(revoke, "it was revoked");
    // What was refused so often is still a good invite.
    let _gateway = stage.place.serve();
    succeeded(&stage.place.join("web-1", &stage.code));
}

#[test]
fn a_member_is_not_led_back_by_a_gateway_that_was_taken_over() {
    let stage = Stage::new();
    let place = &stage.place;
    let gateway = place.serve();
    let code = place.code(&["--uses", "2"]);
    succeeded(&place.join("web-1", &code));
    succeeded(&place.join("web-2", &code));
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    let agent = place.node_command("web-1", &["run", "--every", "1s"]).stderr(std::process::Stdio::null()).spawn();
    let agent = Running(agent.unwrap());
    wait_for(place, |status| status["head"] == 3);
    gateway.kill();

    // The thief even holds the signer's key: a member goes by what it saw, not only by signatures.
    let known = stage.thief.known();
    assert_eq!(known.head.head.version, 3);
    for (head, why) in [
        (stage.papers.head.clone(), "head 2 is older than head 3"),
        (stage.thief.rival(), "two different heads with version 3"),
    ] {
        let impostor = Impostor::serve(place.port, &stage.own, Papers { head, ..stage.papers.clone() });
        // The command line asks at once, the agent in its own time.
        refused(&place.join("web-1", &code), why);
        if why.contains("older") {
            wait_for(place, |status| status["problem"].as_str().is_some_and(|problem| problem.contains(why)));
        }
        assert!(!impostor.was_believed(), "{why}");
    }
    let status = status(place);
    assert_eq!((&status["head"], &status["state"]), (&Value::from(3), &Value::from("member")), "{status}");
    drop(agent);
    let _gateway = place.serve();
    succeeded(&place.join("web-1", &code));
}

fn status(place: &Place) -> Value {
    json(&place.node("web-1", &["status", "--json"], ""))
}

fn wait_for(place: &Place, holds: impl Fn(&Value) -> bool) {
    until("the agent says so", || holds(&status(place)));
}
