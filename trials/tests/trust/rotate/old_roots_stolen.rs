//! The old roots were stolen, with their keys, from the operator's folder. Whoever has them is refused everywhere: while
//! they are still trusted, because no mandate names a key that they certify; later, because nobody trusts them.

use std::sync::{Arc, Mutex};

use ground::random;
use identity::authority::Authority;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::key::P256Key;
use identity::principal::Principal;
use rustls::AlertDescription as Alert;
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, a_day, endpoint};
use trials::client::stranger::{Cut, Dial, Own};
use trials::place::{Place, Running, output, stderr, stdout, succeeded, text, until};

use super::{agent, is, log_of, serve, states, trust};

const UNMANDATED: &str = "no mandate in the head names the issuing key";
const UNTRUSTED: &str = "does not lead to a root that is trusted here";

/// Papers made with stolen roots: for a gateway, and for a member whose machine is the thief's as well.
struct Loot {
    gateway: Own,
    member: Own,
}

/// An issuing key of the thief's own, certified by a stolen root in the name of the gateway.
fn issuer<D: InDomain>(root: &Authority<D>) -> Authority<D> {
    let (org, gateway) = ("harbor".parse().unwrap(), "quay".parse().unwrap());
    let key = random::p256().unwrap();
    root.certify_issuer(&org, &gateway, &key, random::serial().unwrap(), a_day()).unwrap()
}

impl Loot {
    fn of(place: &Place) -> Self {
        let thief = Thief::of(place);
        let root = thief.founders_root::<Endpoint>();
        let gateway = endpoint(&issuer(&root), "127.0.0.1", root.certificate().clone());
        let issuer = issuer(&thief.founders_root::<Identity>());
        let read = |name: &str| std::fs::read_to_string(place.scope("web-1").join(name)).unwrap();
        let node_key = P256Key::from_pem(&read("node.key")).unwrap();
        let key = random::p256().unwrap();
        let node = "web-1".parse().unwrap();
        let principal = Principal::node(&"harbor".parse().unwrap(), &node);
        let request = certificate::make_request(&key).and_then(|der| certificate::read_request(&der)).unwrap();
        let validity = a_day();
        let (org, svid_key, not_after) = (thief.known().org(), request.id, validity.not_after);
        let binding =
            BindingTerms { org, principal: &principal, node: &node, svid_key, not_after }.sign(&node_key).unwrap();
        let leaf = issuer.issue_svid(&principal, &request, &binding, random::serial().unwrap(), validity).unwrap();
        Self { gateway, member: Own { chain: vec![leaf, issuer.certificate().clone()], key } }
    }
}

struct Stage {
    place: Place,
    loot: Loot,
    gateway: Option<Running>,
}

impl Stage {
    /// The roots are stolen before anybody thinks of new ones.
    fn new() -> Self {
        let place = Place::founded(&["--node", "quay"]);
        let gateway = Some(serve(&place));
        place.joined("web-1");
        std::fs::create_dir_all(place.path("other/harbor")).unwrap();
        place.copy(&place.org().join("operator"), &place.path("other/harbor/operator"));
        let loot = Loot::of(&place);
        Self { place, loot, gateway }
    }

    /// The real gateway does not let the member in, and notes why.
    fn member_is_refused(&self, alert: Alert, why: &str) {
        let before = log_of(&self.place, "gateway").len();
        let mut line = Dial::to(self.place.port).with(&self.loot.member).line();
        assert_eq!(line.reply(), Err(Cut(Some(alert))), "{why}");
        until("it is noted", || log_of(&self.place, "gateway")[before..].contains(why));
    }

    /// A false gateway in the place of the real one is believed by nobody: told by each in its own words.
    fn gateway_is_refused(&mut self, why: &str, joiners: &[(&str, &str)]) {
        let papers = Papers::of(Thief::of(&self.place).known());
        self.gateway.take().unwrap().kill();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&heard);
        let impostor = Impostor::answering(self.place.port, &self.loot.gateway, papers, move |path, _| {
            // What anybody may read is no secret; the thief has nothing newer to show.
            if !path.starts_with("/v1/trust/") {
                asked.lock().unwrap().push(path.to_owned());
            }
            None
        });
        let before = trust(&self.place, "web-1");
        let told = output(self.place.node_command("web-1", &["sync"]));
        assert!(!told.status.success() && stderr(&told).contains(why), "the node, `{why}`: {}", stderr(&told));
        assert_eq!(trust(&self.place, "web-1"), before, "nothing of it is kept");
        let told = self.place.operator("other", &["node", "list"]);
        assert!(!told.status.success() && stderr(&told).contains(why), "the operator, `{why}`: {}", stderr(&told));
        for (code, why) in joiners {
            let told = self.place.join("late", code);
            assert!(!told.status.success() && stderr(&told).contains(why), "a joiner, `{why}`: {}", stderr(&told));
            assert!(!self.place.scope("late").exists(), "nothing is left");
        }
        assert!(heard.lock().unwrap().is_empty(), "it heard what is only for gateways: {heard:?}");
        drop(impostor);
        self.gateway = Some(serve(&self.place));
    }
}

#[test]
fn whoever_stole_the_old_roots_is_refused_by_all_while_they_are_trusted_and_after() {
    let mut stage = Stage::new();
    let old = stage.place.invite(&["--name", "late"]);
    let running = agent(&stage.place, "web-1");
    for domain in ["endpoint", "identity"] {
        succeeded(&stage.place.freehold(&["rotate", domain, "--grace", "30d"]));
        is(&states(&stage.place, domain), &[(1, "grace"), (2, "active")]);
    }
    running.kill();
    // In grace. The old code pins the stolen root, and is not enough either.
    let new = stage.place.code(&["--name", "late"]);
    stage.member_is_refused(Alert::AccessDenied, UNMANDATED);
    stage.gateway_is_refused(UNMANDATED, &[(&text(&old, "code"), UNMANDATED), (&new, UNTRUSTED)]);

    succeeded(&stage.place.freehold(&["invite", "revoke", &text(&old, "id"), "--yes"]));
    for domain in ["endpoint", "identity"] {
        succeeded(&stage.place.freehold(&["trust", "retire", domain, "1", "--early", "--yes"]));
        is(&states(&stage.place, domain), &[(1, "retired"), (2, "active")]);
    }
    // Everybody has heard of it.
    succeeded(&output(stage.place.node_command("web-1", &["sync"])));
    succeeded(&stage.place.operator("other", &["node", "list"]));
    stage.member_is_refused(Alert::UnknownCA, "the SVID does not lead to a root");
    stage.gateway_is_refused(UNTRUSTED, &[(&new, UNTRUSTED)]);
    // And all of them go on with the real one.
    succeeded(&output(stage.place.node_command("web-1", &["sync"])));
    succeeded(&stage.place.operator("other", &["node", "list"]));
    succeeded(&stage.place.join("late", &new));
    let told = stdout(&stage.place.freehold(&["doctor"]));
    assert!(told.contains("is one of this org's") && !told.contains(UNTRUSTED), "{told}");
}
