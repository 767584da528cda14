//! Two signer sets claim one place: everybody stands still and says so, until two phrases settle it.

use ground::clock;
use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer, SignerSet, Succession};
use org::ledger::entry::Action;
use serde_json::Value;
use trials::intruder::Intruder;
use trials::place::{Place, Running, json, refused, stderr, stdout, succeeded, text, until};
use trials::thief::Thief;
use wire::known::Known;

use crate::recovering::{paper, problem};

const NODES: [&str; 2] = ["web-1", "web-2"];

/// An org with two machines whose first signer was replaced a moment ago: what was known before, and her key.
fn replaced() -> (Place, Running, Vec<Running>, Vec<String>, (Known, EdKey)) {
    let place = Place::new();
    let address = place.address();
    let words = ["found", "harbor", "--unprotected", "--advertise", &address, "--recovery-delay", "30s", "--json"];
    let founded = json(&place.freehold(&words));
    let phrases = founded["recovery"].as_array().unwrap().iter().map(|words| words.as_str().unwrap().to_owned());
    let gateway = place.serve();
    let agents = NODES.map(|node| {
        place.joined(node);
        place.agent(node)
    });
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let (before, ann) = (Thief::of(&place).known(), Thief::of(&place).signer());
    succeeded(&place.freehold(&["signer", "replace", "ann", "ben", "--unprotected", "--yes"]));
    (place, gateway, agents.into(), phrases.collect(), (before, ann))
}

/// The old key names somebody else in ben's place, and that one signs a head at once. Nobody serves meanwhile.
fn coup(place: &Place, (before, ann): &(Known, EdKey)) -> EdKey {
    let eve = EdKey::from_seed(&[7; 32]);
    let quorum = Quorum::new(1, vec![Signer { name: "eve".parse().unwrap(), key: eve.public() }]).unwrap();
    let (org, first) = (before.org(), &before.signers);
    let set = SignerSet::later(org, first.version + 1, quorum.clone());
    let step = Succession {
        version: set.version,
        previous: first.id,
        also: Vec::new(),
        quorum,
        head: Some(before.head.digest),
    };
    let step = Envelope::seal(Some(org), &step).unwrap().signed(ann).unwrap();
    let head = Head {
        version: before.head.head.version + 1,
        previous: vec![before.head.digest],
        signers: set.as_ref(),
        issued_at: clock::now(),
        cause: Cause::SignersInstall,
        ..before.head.head.clone()
    };
    let head = Envelope::seal(Some(org), &head).unwrap().signed(&eve).unwrap();
    let intruder = Intruder::at(place.org().join("gateway"));
    intruder.saw(step.digest(), clock::now());
    for envelope in [step, head] {
        intruder.put(&intruder.says(Action::Take { envelope }));
    }
    eve
}

fn alarms(place: &Place) -> String {
    place.facts(&["status"])["alarms"].to_string()
}

#[test]
fn two_phrases_end_a_freeze_for_everybody_and_neither_of_the_rivals_signs_any_more() {
    let (place, gateway, _agents, phrases, before) = replaced();
    assert_eq!(gateway.stop(), Some(0));
    let eve = coup(&place, &before);
    let _gateway = place.serve();

    // Everybody stands still, and says between whom.
    for node in NODES {
        until("it says that it stands still", || problem(&place, node).contains("FROZEN"));
        let told = problem(&place, node);
        assert!(told.contains("ben") && told.contains("eve") && told.contains("freehold recover --signer"), "{told}");
    }
    let told = alarms(&place);
    assert!(told.contains("FROZEN") && told.contains("ben") && told.contains("eve"), "{told}");
    assert!(told.contains("freehold recover --signer"), "{told}");
    let stopped = place.freehold(&["refresh"]);
    refused(&stopped, "nothing is signed until that is settled");
    assert!(stderr(&stopped).contains("freehold recover --signer"), "{}", stderr(&stopped));

    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);

    // Somebody with a card and two of the phrases, from a home that followed neither.
    let paper = paper(&place, "two", &phrases[1..]);
    let words = ["recover", "--card", "harbor.card", "--unprotected", "--yes", "--phrases-file", &paper, "--signer"];
    refused(&place.operator("zoe", &[&words[..], &["eve"]].concat()), "was a signer before");
    let begun = place.operator("zoe", &[&words[..], &["zoe"]].concat());
    succeeded(&begun);
    assert!(stderr(&begun).contains("Two signer sets of `harbor` claim one place"), "{}", stderr(&begun));
    assert!(stderr(&begun).contains("ben") && stderr(&begun).contains("eve"), "{}", stderr(&begun));
    assert!(stdout(&begun).contains("zoe take over at "), "{}", stdout(&begun));
    // Until when, everybody is told.
    for node in NODES {
        until("it says until when", || problem(&place, node).contains("settle it for zoe"));
    }
    assert!(alarms(&place).contains("settle it for zoe"), "{}", alarms(&place));
    let done = place.operator_facts("zoe", &["recover", "--wait"]);
    assert_eq!(done["state"], "done", "{done}");
    for node in NODES {
        until("it follows the new signers", || {
            let status = place.status(node);
            status["head"] == done["head"] && status["problem"] == Value::Null
        });
    }
    // The org goes on; the keys of both rivals are worth nothing.
    let invite = place.operator_facts("zoe", &["invite", "create"]);
    succeeded(&place.join("web-3", &text(&invite, "code")));
    let ben = place.freehold(&["refresh"]);
    assert!(!ben.status.success(), "ben still signs: {}", stdout(&ben));
    let thief = Thief::at(place.path("zoe/harbor"), place.port);
    let head = Head { version: 99, issued_at: clock::now(), ..thief.known().head.head };
    let head = Envelope::seal(Some(before.0.org()), &head).unwrap().signed(&eve).unwrap();
    let intruder = Intruder::at(place.org().join("gateway"));
    assert_eq!(intruder.state().open_shown(&head), None);
    assert_eq!(place.operator_facts("zoe", &["audit", "--verify"])["ok"], true);
}

/// Ben has the phrases, too. His home followed his own head, above the one on which everybody stands.
#[test]
fn the_home_of_a_rival_settles_it_and_is_told_what_lapsed() {
    let (place, gateway, _agents, phrases, before) = replaced();
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    assert_eq!(gateway.stop(), Some(0));
    coup(&place, &before);
    let paper = paper(&place, "two", &phrases[..2]);
    let words = ["recover", "--signer", "zoe", "--unprotected", "--yes", "--phrases-file", &paper, "--json"];
    // In the gateway's folder, which nobody serves from: machines hear of it when somebody does.
    let begun = json(&place.freehold(&words));
    assert_eq!((&begun["state"], &begun["signers"]), (&"waiting".into(), &serde_json::json!(["zoe"])));
    let _gateway = place.serve();
    until("it says until when", || problem(&place, "web-1").contains("settle it for zoe"));
    let done = place.facts(&["recover", "--wait"]);
    assert_eq!(done["state"], "done", "{done}");
    until("it follows the new signers", || place.status("web-1")["head"] == done["head"]);
    place.joined("web-3");
    let status = place.facts(&["status"]);
    assert_eq!(status["head"]["signers"], serde_json::json!(["zoe"]));
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains("`web-2`") && alarms.contains("counts for nothing"), "{alarms}");
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    assert!(!place.facts(&["status"])["alarms"].to_string().contains("counts for nothing"));
}
