//! Two signer sets claim one place: everybody stands still and says so, until all who sign for them settle it, or two phrases do.

use std::process::{Command, Output};

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer, SignerSet, Succession};
use org::ledger::entry::Action;
use serde_json::Value;
use trials::attack::intruder::Intruder;
use trials::attack::thief::{Thief, signed_call};
use trials::client::stranger::Dial;
use trials::place::{Place, Running, binary, ended, json, output, refused, stderr, stdout, succeeded, text, until};
use wire::control::Call;
use wire::known::Known;
use wire::permit::Ask;

use crate::gateways::Two;
use crate::operators::recover::{paper, problem};

const NODES: [&str; 2] = ["web-1", "web-2"];

/// An org with two machines whose signer was replaced a moment ago, and another one removed before if there were two: what was
/// known before, and her key.
fn replaced((signers, delay): (&str, &str)) -> (Place, Running, Vec<Running>, Vec<String>, (Known, EdKey)) {
    let place = Place::new();
    let address = place.address();
    let words = ["found", "harbor", "--unprotected", "--advertise", &address, "--recovery-delay", delay, "--json"];
    let founded = json(&place.freehold(&[&words[..], &["--signers", signers]].concat()));
    let phrases = founded["recovery"].as_array().unwrap().iter().map(|words| words.as_str().unwrap().to_owned());
    let gateway = place.serve();
    let agents = NODES.map(|node| {
        place.joined(node);
        place.agent(node)
    });
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    if signers == "1-of-2" {
        succeeded(&place.freehold(&["signer", "remove", "ann-2", "--yes"]));
    }
    let (before, ann) = (Thief::of(&place).known(), Thief::of(&place).signer());
    succeeded(&place.freehold(&["signer", "replace", "ann", "ben", "--unprotected", "--yes"]));
    (place, gateway, agents.into(), phrases.collect(), (before, ann))
}

fn lone(name: &str, key: &EdKey) -> Quorum {
    Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key.public() }]).unwrap()
}

/// A step to other signers, and their first head, by whomever.
fn step_and_head(before: &Known, step: &Succession, by: &[&EdKey], first: &EdKey) -> [Envelope; 2] {
    let org = before.org();
    let head = Head {
        version: before.head.head.version + 1,
        previous: vec![before.head.digest],
        signers: SignerSet::later(org, step.version, step.quorum.clone()).as_ref(),
        issued_at: clock::now(),
        cause: Cause::SignersInstall,
        ..before.head.head.clone()
    };
    let head = Envelope::seal(Some(org), &head).unwrap().signed(first).unwrap();
    let step = Envelope::seal(Some(org), step).unwrap();
    [by.iter().fold(step, |step, key| step.signed(*key).unwrap()), head]
}

/// The old key names somebody else in ben's place, and that one signs a head at once. Nobody serves meanwhile.
fn coup(place: &Place, (before, ann): &(Known, EdKey), name: &str) -> (SignerSet, EdKey) {
    let key = random::ed25519().unwrap();
    let (version, previous, quorum) = (before.signers.version + 1, before.signers.id, lone(name, &key));
    let set = SignerSet::later(before.org(), version, quorum.clone());
    let step = Succession { version, previous, also: Vec::new(), quorum, head: Some(before.head.digest) };
    let intruder = Intruder::at(place.org().join("gateway"));
    let [step, head] = step_and_head(before, &step, &[ann], &key);
    intruder.saw(step.digest(), clock::now());
    for envelope in [step, head] {
        intruder.put(&intruder.says(Action::Take { envelope }));
    }
    (set, key)
}

fn alarms(place: &Place) -> String {
    place.facts(&["status"])["alarms"].to_string()
}

#[test]
fn two_phrases_end_a_freeze_for_everybody_and_neither_of_the_rivals_signs_any_more() {
    let (place, gateway, _agents, phrases, before) = replaced(("1-of-1", "30s"));
    assert_eq!(gateway.stop(), Some(0));
    let (_, eve) = coup(&place, &before, "eve");
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
    let done = place.operator_facts("zoe", &["recover", "--wait", "--yes"]);
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
    let (place, gateway, _agents, phrases, before) = replaced(("1-of-1", "30s"));
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    assert_eq!(gateway.stop(), Some(0));
    coup(&place, &before, "eve");
    let paper = paper(&place, "two", &phrases[..2]);
    let words = ["recover", "--signer", "zoe", "--unprotected", "--yes", "--phrases-file", &paper, "--json"];
    // In the gateway's folder, which nobody serves from: machines hear of it when somebody does.
    let begun = json(&place.freehold(&words));
    assert_eq!((&begun["state"], &begun["signers"]), (&"waiting".into(), &serde_json::json!(["zoe"])));
    let _gateway = place.serve();
    until("it says until when", || problem(&place, "web-1").contains("settle it for zoe"));
    let done = place.facts(&["recover", "--wait", "--yes"]);
    assert_eq!(done["state"], "done", "{done}");
    until("it follows the new signers", || place.status("web-1")["head"] == done["head"]);
    place.joined("web-3");
    let status = place.facts(&["status"]);
    assert_eq!(status["head"]["signers"], serde_json::json!(["zoe"]));
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains("web-2") && alarms.contains("counts for nothing"), "{alarms}");
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    assert!(!place.facts(&["status"])["alarms"].to_string().contains("counts for nothing"));
}

/// What a step that follows these sets together comes to, if eve brings it: nothing, or `ok`.
fn brought(place: &Place, before: &Known, (eve, by): (&EdKey, &[&EdKey]), sets: &[&SignerSet], to: &Quorum) -> String {
    let mut ids = sets.iter().map(|set| set.id);
    let (version, previous, head) = (sets[0].version + 1, ids.next().unwrap(), Some(before.head.digest));
    let step = Succession { version, previous, also: ids.collect(), quorum: to.clone(), head };
    let objects = step_and_head(before, &step, by, eve).to_vec();
    let mut line = Dial::to(place.port).line();
    let call = Call::Take { objects, correlation: random::correlation().unwrap() };
    line.ask(Ask::Control, &signed_call("eve", &call, line.exporter, eve)).unwrap().code()
}

#[test]
fn what_not_all_of_them_signed_or_what_brings_a_removed_key_back_settles_nothing() {
    let (place, gateway, _agents, _, before) = replaced(("1-of-2", "24h"));
    assert_eq!(gateway.stop(), Some(0));
    let (evas, eve) = coup(&place, &before, "eve");
    let gateway = place.serve();
    let (thief, known) = (Thief::of(&place), &before.0);
    let (ben, gone) = (thief.signer_of("ben"), thief.signer_of("ann-2"));
    let bens = SignerSet::later(known.org(), known.signers.version + 1, lone("ben", &ben));
    let (hers, back) = (lone("eve", &eve), lone("ann-2", &gone));
    let both = Quorum::new(1, [&hers, &back].iter().flat_map(|it| it.signers().to_vec()).collect()).unwrap();
    assert_ne!(brought(&place, known, (&eve, &[&eve]), &[&bens, &evas], &hers), "ok", "one of two");
    assert_ne!(brought(&place, known, (&eve, &[&eve]), &[&evas], &hers), "ok", "her own successor");
    assert_ne!(brought(&place, known, (&eve, &[&eve, &ben]), &[&bens, &evas], &both), "ok", "a removed key");
    // A third one appears.
    assert_eq!(gateway.stop(), Some(0));
    let (third, mal) = coup(&place, &before, "mal");
    let _gateway = place.serve();
    assert_ne!(brought(&place, known, (&eve, &[&eve, &ben]), &[&bens, &evas], &hers), "ok", "two of three");
    for node in NODES {
        until("it says between whom", || ["ben", "eve", "mal"].iter().all(|name| problem(&place, node).contains(name)));
        assert!(problem(&place, node).contains("FROZEN"), "{}", problem(&place, node));
    }
    assert!(Intruder::at(place.org().join("gateway")).state().is_frozen() && alarms(&place).contains("FROZEN"));
    // All three, and nothing is missing.
    let all = brought(&place, known, (&eve, &[&eve, &ben, &mal]), &[&bens, &evas, &third], &hers);
    assert_eq!(all, "ok");
    for node in NODES {
        until("it follows what all of them signed", || place.status(node)["problem"] == Value::Null);
    }
}

/// Two operators, any one of whom signs. Each adds a colleague, at a gateway that does not reach the other's, has two agree from
/// then on, and revokes a machine.
struct Parted {
    two: Two,
    _serving: [Running; 2],
    _agents: [Running; 2],
}

/// `freehold` with a home of its own, at one gateway.
fn at(two: &Two, (home, gateway): (&str, &str), words: &[&str]) -> Output {
    let mut command = Command::new(binary("freehold"));
    command.args(words).arg("--home").arg(two.place.path(home)).arg("--gateway").arg(gateway);
    output(command)
}

fn parted() -> Parted {
    let (two, laptop, vps) = Two::founded(&["--signers", "1-of-2"]).both_serve();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    for node in ["web-1", "web-2", "shed", "old-1", "old-2"] {
        place.joined(node);
    }
    let agents = NODES.map(|node| place.agent(node));
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &two.file("ben")]));
    succeeded(&place.freehold(&["refresh"]));
    succeeded(&at(&two, ("ben", &b), &["node", "list"]));
    two.settle();
    let words = |colleague| ["signer", "add", colleague, "--threshold", "2", "--unprotected", "--yes"];
    assert_eq!(vps.stop(), Some(0));
    succeeded(&at(&two, ("home", &a), &words("cid")));
    succeeded(&at(&two, ("home", &a), &["node", "revoke", "old-1", "--yes"]));
    assert_eq!(laptop.stop(), Some(0));
    let vps = two.serve_vps();
    succeeded(&at(&two, ("ben", &b), &words("dan")));
    succeeded(&at(&two, ("ben", &b), &["node", "revoke", "old-2", "--yes"]));
    let laptop = place.serve();
    Parted { two, _serving: [laptop, vps], _agents: agents }
}

#[test]
fn two_operators_who_each_added_a_colleague_settle_it_at_once_and_everybody_follows() {
    let parted = parted();
    let (two, place) = (&parted.two, &parted.two.place);
    let (a, b, file) = (place.address(), two.address(), two.file("who.pending"));
    for gateway in [&a, &b] {
        until("both stand still", || two.at(gateway, &["status"])["alarms"].to_string().contains("FROZEN"));
    }
    for node in NODES {
        until("it stands still", || problem(place, node).contains("FROZEN"));
        assert!(problem(place, node).contains("freehold signer settle"), "{}", problem(place, node));
    }
    let listed = at(two, ("home", &a), &["signer", "list"]);
    succeeded(&listed);
    assert!(stdout(&listed).contains("CLAIMS A PLACE") && stdout(&listed).contains("freehold signer settle"));
    let stopped = at(two, ("home", &a), &["refresh"]);
    refused(&stopped, "nothing is signed until that is settled");
    assert!(stderr(&stopped).contains("freehold signer settle"), "{}", stderr(&stopped));

    // One makes it; it waits for the other, and until then it is worth nothing.
    let made = at(two, ("home", &a), &["signer", "settle", "--yes", "--pending", &file, "--json"]);
    let made = json(&made);
    assert_eq!(made["signers"], serde_json::json!(["ann", "ann-2", "cid", "dan"]), "{made}");
    assert_eq!((&made["version"], &made["threshold"]), (&3.into(), &2.into()), "{made}");
    assert!(made["rivals"].as_array().unwrap().iter().all(|rival| rival["head"]["version"].is_u64()), "{made}");
    let needs = made["pending"]["needs"].as_array().unwrap();
    assert_eq!(needs.iter().map(|need| need["signed"].as_array().unwrap().len()).sum::<usize>(), 5, "{made}");
    ended(&at(two, ("home", &a), &["send", &file]), 5, "needs 2 signatures and has 1");

    // The other one looks, signs, and sends it: everybody goes on, without waiting.
    succeeded(&at(two, ("ben", &b), &["node", "list"]));
    let signed = at(two, ("ben", &b), &["sign", &file, "--yes"]);
    succeeded(&signed);
    assert!(stderr(&signed).contains("SETTLES which of several sets signs"), "{}", stderr(&signed));
    assert!(stdout(&signed).contains("complete"), "{}", stdout(&signed));
    let sent = json(&at(two, ("ben", &b), &["send", &file, "--json"]));
    let _shed = place.agent("shed");
    for node in ["web-1", "web-2", "shed"] {
        until("it follows the set that all signed", || {
            let status = place.status(node);
            status["head"] == sent["head"] && status["problem"] == Value::Null
        });
    }
    refused(&at(two, ("home", &a), &["signer", "settle", "--yes"]), "no two signer sets claim one place here");
    for gateway in [&a, &b] {
        until("it goes by what each of them said", || {
            ["old-1", "old-2"].iter().all(|node| two.state_at(gateway, node).as_deref() == Some("revoked"))
        });
        assert_eq!(two.at(gateway, &["status"])["head"]["signer_set"], 3);
        assert_eq!(two.at(gateway, &["audit", "--verify"])["ok"], true);
    }
    place.joined("web-5");
    succeeded(&at(two, ("ben", &b), &["refresh"]));
    // Whoever begins now is told of it all.
    succeeded(&place.freehold(&["org", "card", "--out", "new.card"]));
    succeeded(&at(two, ("eva", &a), &["signer", "new", "eva", "--card", &two.file("new.card"), "--unprotected"]));
}

/// A careless person copied the one gateway's folder: each operator asks another copy of it. Its chain forks, too, and it may
/// write nothing: what settles who signs lies beside its chain, and must be found there.
#[test]
fn what_froze_between_two_copies_of_a_gateway_is_settled_and_the_gateway_begins_another_chain() {
    let place = Place::founded(&["--signers", "1-of-2", "--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let ben = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &ben]));
    succeeded(&place.freehold(&["refresh"]));
    succeeded(&place.operator("ben", &["node", "list"]));
    assert_eq!(gateway.stop(), Some(0));
    let (folder, copy, hers) = (place.org().join("gateway"), place.path("copy"), place.path("hers"));
    place.copy(&folder, &copy);
    let add = |colleague| ["signer", "add", colleague, "--unprotected", "--yes"];
    let gateway = place.serve();
    succeeded(&place.freehold(&add("cid")));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::rename(&folder, &hers).unwrap();
    std::fs::rename(&copy, &folder).unwrap();
    let gateway = place.serve();
    succeeded(&place.operator("ben", &add("dan")));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::rename(&folder, &copy).unwrap();
    std::fs::rename(&hers, &folder).unwrap();
    let _gateway = place.serve();
    // His home hands over what the gateway lacks.
    let _told = place.operator("ben", &["status"]);
    until("everybody stands still", || alarms(&place).contains("FROZEN"));
    refused(&place.freehold(&["gateway", "reopen", "quay", "--yes"]), "nothing is signed until that is settled");

    let settled = place.freehold(&["signer", "settle", "--yes"]);
    succeeded(&settled);
    assert!(stdout(&settled).contains("settled: signer set 3 is in force"), "{}", stdout(&settled));
    succeeded(&place.freehold(&["gateway", "reopen", "quay", "--yes"]));
    place.joined("web-2");
    succeeded(&place.operator("ben", &["refresh"]));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}
