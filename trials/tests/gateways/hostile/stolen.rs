//! Certificates made with stolen issuing keys: without the node key of a member they speak for nobody.

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::Identity;
use identity::certificate::binding::{Binding, BindingTerms};
use identity::certificate::{self, RequestedKey, Validity, draft_svid};
use identity::key::{P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::time::{Seconds, Timestamp};
use rcgen::{BasicConstraints, IsCa, SanType};
use rustls::AlertDescription as Alert;
use trials::attack::thief::{Thief, a_day};
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Cut, Dial, Own};
use wire::permit::Ask;

use super::Scene;

/// A thief with a member's machine and the gateway's disk.
struct Heist {
    scene: Scene,
    thief: Thief,
    member: Joiner,
}

impl Heist {
    fn new() -> Self {
        let scene = Scene::new();
        let (member, _) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
        let thief = Thief::of(&scene.place);
        Self { scene, thief, member }
    }

    fn bind(&self, principal: &Principal, node: &str, not_after: Timestamp) -> Binding {
        let svid_key = certificate::key_id(self.member.svid_key.public()).unwrap();
        let node = node.parse().unwrap();
        BindingTerms { org: self.member.code.org, principal, node: &node, svid_key, not_after }
            .sign(&self.member.node_key)
            .unwrap()
    }

    /// An SVID of the member itself that would be good, but for the twist.
    fn twisted(&self, validity: Validity, twist: impl FnOnce(&mut rcgen::CertificateParams)) -> Own {
        let principal = self.member.principal();
        let binding = self.bind(&principal, "web-1", validity.not_after);
        let mut draft = draft_svid(&principal, &binding, random::serial().unwrap(), validity).unwrap();
        twist(&mut draft);
        self.thief.sign_draft(&draft, &self.member.svid_key)
    }

    fn requested(&self) -> RequestedKey {
        let der = certificate::make_request(&self.member.svid_key).unwrap();
        certificate::read_request(&der).unwrap()
    }

    /// The same by another authority.
    fn issued_by(&self, authority: &Authority<Identity>) -> Own {
        let principal = self.member.principal();
        let binding = self.bind(&principal, "web-1", a_day().not_after);
        let leaf =
            authority.issue_svid(&principal, &self.requested(), &binding, random::serial().unwrap(), a_day()).unwrap();
        Own {
            chain: vec![leaf, authority.certificate().clone()],
            key: P256Key::from_pkcs8(self.member.svid_key.pkcs8()).unwrap(),
        }
    }

    /// Refused in the handshake, and the gateway's log has the true reason.
    fn check(&self, own: &Own, alert: Alert, reason: &str) {
        let seen = self.scene.log().matches(reason).count();
        let mut line = Dial::to(self.scene.port()).with(own).line();
        assert_eq!(line.reply(), Err(Cut(Some(alert))), "{reason}");
        let logged = self.scene.log();
        assert!(logged.matches(reason).count() > seen, "expected `{reason}` in: {logged}");
    }
}

#[test]
fn an_svid_that_is_not_in_order_is_refused_in_the_handshake() {
    let heist = Heist::new();
    let before = heist.scene.truth();
    let good = heist.twisted(a_day(), |_| {});
    let mut line = Dial::to(heist.scene.port()).with(&good).line();
    assert_eq!(line.code(Ask::CheckIn, &check_in()), "ok", "without a twist the forgery is perfect");

    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let no_binding = heist.twisted(a_day(), |draft| draft.custom_extensions.clear());
    heist.check(&no_binding, Alert::AccessDenied, "carries no binding");
    let two_names = heist.twisted(a_day(), |draft| draft.subject_alt_names.push(uri("spiffe://harbor/node/db-1")));
    heist.check(&two_names, Alert::AccessDenied, "exactly one name");
    let host_name =
        heist.twisted(a_day(), |draft| draft.subject_alt_names.push(SanType::DnsName("web-1".try_into().unwrap())));
    heist.check(&host_name, Alert::AccessDenied, "exactly one name");
    let other_org = heist.twisted(a_day(), |draft| draft.subject_alt_names = vec![uri("spiffe://other/node/web-1")]);
    heist.check(&other_org, Alert::AccessDenied, "exactly one name");
    let other_name = heist.twisted(a_day(), |draft| draft.subject_alt_names = vec![uri("spiffe://harbor/node/db-1")]);
    heist.check(&other_name, Alert::AccessDenied, "binding does not hold");
    let authority = heist.twisted(a_day(), |draft| draft.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    heist.check(&authority, Alert::AccessDenied, "not fit for this use");
    let now = clock::now();
    let long = heist.twisted(Validity::from_now(now, Seconds::DAY.times(365)), |_| {});
    heist.check(&long, Alert::AccessDenied, "does not cover this");
    let past = Validity { not_before: now - Seconds::DAY, not_after: now - Seconds::HOUR };
    heist.check(&heist.twisted(past, |_| {}), Alert::CertificateExpired, "the SVID expired at");
    let future = Validity { not_before: now + Seconds::HOUR, not_after: now + Seconds::HOUR.times(5) };
    heist.check(&heist.twisted(future, |_| {}), Alert::BadCertificate, "valid only from");
    assert_eq!(heist.scene.truth(), before);
}

#[test]
fn an_issuer_without_a_mandate_makes_nobody_a_member() {
    let heist = Heist::new();
    let before = heist.scene.truth();
    let (harbor, gateway) = (heist.member.code.name.clone(), heist.thief.survey().gateway);
    let root = heist.thief.identity_root();
    let key = random::p256().unwrap();
    let unmandated = root.certify_issuer(&harbor, &gateway, &key, random::serial().unwrap(), a_day()).unwrap();
    heist.check(&heist.issued_by(&unmandated), Alert::AccessDenied, "no mandate in the head names the issuing key");
    heist.check(&heist.issued_by(&root), Alert::AccessDenied, "not made by an issuing key directly below the root");
    let foreign = Authority::<Identity>::root(&harbor, &key, random::serial().unwrap(), a_day()).unwrap();
    let foreign_key = random::p256().unwrap();
    let below = foreign.certify_issuer(&harbor, &gateway, &foreign_key, random::serial().unwrap(), a_day()).unwrap();
    heist.check(&heist.issued_by(&below), Alert::UnknownCA, "does not lead to a root that is trusted here");
    // The gateway's own HTTPS certificate, freshly made with its stolen issuing key.
    heist.check(&heist.thief.endpoint("127.0.0.1"), Alert::AccessDenied, "not fit for this use");
    assert_eq!(heist.scene.truth(), before);
}

/// Everything that a member may ask.
fn check_powerless(scene: &Scene, own: &Own, asking: &Joiner, expected: &str) {
    let mut line = Dial::to(scene.port()).with(own).line();
    assert_eq!(line.code(Ask::CheckIn, &check_in()), expected);
    let ground = Ground::on(&mut line);
    assert_eq!(line.code(Ask::Renew, &asking.renew(ground)), expected);
    assert_eq!(line.code(Ask::Leave, &()), expected);
}

#[test]
fn a_stolen_issuing_key_cannot_speak_for_a_member() {
    let heist = Heist::new();
    let gateway: NodeName = heist.thief.survey().gateway;
    let code = heist.scene.place.code(&[]);
    Joiner::join(&code, "db-1", heist.scene.port());
    let before = heist.scene.truth();
    for victim in ["db-1", gateway.as_str()] {
        let stranger = Joiner::new(&code, victim);
        // The second is a member itself, under another name: its key is admitted, but not as the victim.
        let insider = Joiner {
            node_key: P256Key::from_pkcs8(heist.member.node_key.pkcs8()).unwrap(),
            ..Joiner::new(&code, victim)
        };
        for asking in [stranger, insider] {
            let binding = asking.svid(a_day().not_after).binding;
            let draft = draft_svid(&asking.principal(), &binding, random::serial().unwrap(), a_day()).unwrap();
            let own = heist.thief.sign_draft(&draft, &asking.svid_key);
            check_powerless(&heist.scene, &own, &asking, "not_admitted");
        }
    }
    assert_eq!(heist.scene.truth(), before);
    heist.scene.audit();
}

#[test]
fn the_binding_of_a_member_does_not_fit_anothers_key() {
    let heist = Heist::new();
    let before = heist.scene.truth();
    // Copied out of the member's own certificate, put around the thief's SVID key.
    let binding = heist.bind(&heist.member.principal(), "web-1", a_day().not_after);
    let draft = draft_svid(&heist.member.principal(), &binding, random::serial().unwrap(), a_day()).unwrap();
    let own = heist.thief.sign_draft(&draft, &random::p256().unwrap());
    heist.check(&own, Alert::AccessDenied, "binding does not hold");
    assert_eq!(heist.scene.truth(), before);
}
