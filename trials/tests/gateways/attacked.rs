//! A gateway that is stolen, removed, or set back.

use std::time::Duration;

use ground::{clock, random};
use identity::head::Recorded;
use identity::id::Digest;
use identity::principal::NodeName;
use org::ledger::entry::{Action, SignedEntry, Stamp};
use trials::attack::intruder::Intruder;
use trials::client::joiner::Joiner;
use trials::faults::Clock;
use trials::load::meter;
use trials::place::{ended, refused, stderr, stdout, succeeded, text, until};

use super::Two;
use crate::faults::{agent, counter};

#[test]
fn a_removed_gateway_is_told_nothing_more() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    two.settle();
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    let invite = two.at(&a, &["invite", "create", "--name", "late"]);
    succeeded(&place.join("late", &text(&invite, "code")));
    // It is believed by nobody, and what happens now it does not hear.
    let told = place.freehold(&["node", "list", "--gateway", &b]);
    assert!(!told.status.success(), "nobody believes it");
    let ledger = Intruder::at(place.scope("vps").join("gateway"));
    let knows = |name: &str| ledger.state().named(&name.parse::<NodeName>().unwrap()).next().is_some();
    assert!(knows("vps"));
    place.joined("later");
    assert!(!knows("late") && !knows("later"));
}

#[test]
fn a_gateway_that_was_set_back_is_filled_up_by_the_other_and_goes_on() {
    let (two, _laptop, vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    vps.stop();
    let (folder, copy) = (place.scope("vps").join("gateway"), place.path("copy"));
    place.copy(&folder, &copy);
    let vps = two.serve_vps();
    let code = text(&two.at(&b, &["invite", "create", "--name", "lost", "--name", "later", "--uses", "2"]), "code");
    succeeded(&place.join("lost", &code));
    two.settle();
    vps.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    place.copy(&copy, &folder);
    // The laptop has entries in this gateway's own voice that it does not have itself: it asks before it writes.
    let _vps = two.serve_vps();
    until("it has them again", || two.state_at(&b, "lost").as_deref() == Some("member"));
    succeeded(&place.join("later", &code));
    two.settle();
    for gateway in [&a, &b] {
        assert_eq!(two.state_at(gateway, "later").as_deref(), Some("member"));
        assert_eq!(two.at(gateway, &["audit", "--verify"])["ok"], true);
    }
    ended(&place.freehold(&["gateway", "reopen", "vps", "--yes", "--gateway", &b]), 1, "nothing is wrong with `vps`");
}

/// Two copies of the second gateway's folder were served by turns, while it was alone.
#[test]
fn a_fork_is_noticed_by_every_replica_and_cured_at_either_gateway() {
    forks(Two::founded(&[]));
}

#[test]
fn a_fork_is_cured_at_either_gateway_where_two_must_agree() {
    forks(Two::founded(&["--signers", "2-of-2"]));
}

fn forks(two: Two) {
    let (two, laptop, vps) = two.both_serve();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    let code = text(&two.at(&b, &["invite", "create", "--uses", "4", "--at", "vps", "--name", "n-*"]), "code");
    two.settle();
    vps.stop();
    // The whole machine is copied: what it was told itself lies beside the ledger.
    let (folder, copy) = (place.scope("vps"), place.path("copy"));
    place.copy(&folder, &copy);
    laptop.stop();
    let vps = two.serve_vps();
    succeeded(&place.join("n-1", &code));
    vps.stop();
    std::fs::rename(&folder, place.path("branch")).unwrap();
    place.copy(&copy, &folder);
    let vps = two.serve_vps();
    succeeded(&place.join("n-2", &code));
    // The laptop hears of this branch; then the other one is served again.
    let _laptop = place.serve();
    until("it has heard of it", || two.state_at(&a, "n-2").as_deref() == Some("member"));
    vps.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(place.path("branch"), &folder).unwrap();
    let _vps = two.serve_vps();
    until("it stops", || stderr(&place.join("n-3", &code)).contains("ledger is older"));
    until("the laptop lets both wait", || two.state_at(&a, "n-2").as_deref() == Some("waiting"));
    let listed = two.at(&a, &["gateway", "list"]);
    let fork = listed.as_array().unwrap().iter().find(|it| it["gateway"] == "vps").unwrap()["fork"].clone();
    let entries: Vec<_> = fork["branches"].as_array().unwrap().iter().map(|it| text(it, "entry")).collect();
    let words = stdout(&place.freehold(&["gateway", "list", "--gateway", &a]));
    assert!(entries.len() == 2 && entries.iter().all(|entry| words.contains(entry)), "{words}");
    assert!(words.contains(&format!("forks at entry {}", fork["at"])), "{words}");
    let waiting = two.at(&a, &["node", "waiting"]);
    let waiting: Vec<_> =
        waiting.as_array().unwrap().iter().map(|it| (text(it, "name"), text(it, "cut_off"))).collect();
    assert!(waiting.iter().map(|(name, _)| name.as_str()).eq(["n-1", "n-2"]), "{waiting:?}");
    // Whom a closing would leave out is told before anything is signed.
    let told = stderr(&place.freehold(&["gateway", "remove", "vps", "--gateway", &a]));
    assert!(told.contains("leaves n-1, n-2 waiting: "), "{told}");
    // At the first one, which is fine: the second hears of it, and goes over by itself.
    let mut done = serde_json::Value::Null;
    until("the laptop knows in which voice it would go on", || {
        let told = place.freehold(&["gateway", "reopen", "vps", "--yes", "--json", "--gateway", &a]);
        done = serde_json::from_slice(&told.stdout).unwrap_or_default();
        told.status.success()
    });
    assert_eq!(done["fork"]["branches"].as_array().map(Vec::len), Some(2), "{done}");
    until("it lets machines in again", || place.join("n-3", &code).status.success());
    for name in ["n-1", "n-2"] {
        succeeded(&place.freehold(&["node", "approve", name, "--yes", "--gateway", &a]));
    }
    // That they came back was written into a branch that does not count; they come back again.
    let _agents = ["n-1", "n-2"].map(|name| place.agent(name));
    for gateway in [&a, &b] {
        for name in ["n-1", "n-2", "n-3"] {
            until("everybody agrees", || two.state_at(gateway, name).as_deref() == Some("member"));
        }
        assert_eq!(two.at(gateway, &["audit", "--verify"])["ok"], true);
    }
}

/// Entries in a stolen voice, after places that never were, more than go into one answer.
#[test]
fn entries_that_follow_none_hold_up_nobody_and_are_told_of_until_their_voice_is_closed() {
    let (two, laptop, vps) = Two::serving();
    let (place, a) = (&two.place, two.place.address());
    let code = place.code(&["--uses", "3", "--at", "vps"]);
    two.settle();
    vps.stop();
    let intruder = Intruder::at(place.scope("vps").join("gateway"));
    let (state, voice, rogue) = (intruder.state(), intruder.voice(), Joiner::new(&code, "web-9"));
    for seq in 40..640 {
        let action = match seq {
            40 => Action::NodeAdmit { claim: rogue.signed_claim(), invite: None, approval: None },
            _ => Action::NodeJoin { node_key: Digest([8; 32]), name: "vps".parse().unwrap() },
        };
        let (after, about) = (
            Recorded { seq, digest: Digest([7; 32]) },
            Stamp { at: clock::now(), correlation: random::correlation().unwrap() },
        );
        let signed = SignedEntry::write(state.org, Some(after), &voice, state.under(), about, action);
        intruder.put(&signed.unwrap());
    }
    let _vps = two.serve_vps();
    let verify = ["audit", "--verify", "--gateway", &a];
    let heard = Intruder::at(place.org().join("gateway"));
    until("the laptop has heard of them", || heard.entries().iter().any(|signed| signed.entry.seq > 40));
    ended(&place.freehold(&verify), 1, "entry 40 of the chain of `vps` is missing");
    // Whatever is new gets through to the home and to the other gateway, and neither goes round in circles.
    succeeded(&place.join("web-1", &text(&two.at(&a, &["invite", "create", "--name", "web-1"]), "code")));
    until("the other has it", || two.state_at(&two.address(), "web-1").as_deref() == Some("member"));
    let id = place.facts(&["org", "list"])[0]["org_id"].clone();
    let fleet = format!(
        "org: {{name: harbor, id: {id}}}
users: {{ann: {{roles: operator, nodes: laptop}}}}
roles: {{operator: {{allow: pages}}}}
groups: [pages]
nodes: {{laptop: {{address: \"@PEERS@\"}}}}
services: {{wiki: {{at: laptop, addr: \"127.0.0.1:8080\", groups: pages}}}}
"
    );
    place.write_fleet(&fleet);
    succeeded(&place.freehold(&["publish", "--yes", "--no-wait", "--gateway", &a]));
    let before = meter::cpu(laptop.0.id());
    std::thread::sleep(Duration::from_secs(2));
    let spent = meter::cpu(laptop.0.id()).saturating_sub(before);
    assert!(spent < Duration::from_millis(600), "it was busy for {spent:?} of two seconds");
    // The voice that wrote them is closed, and with it what it left hanging; the gateway goes on in another.
    succeeded(&place.freehold(&["gateway", "reopen", "vps", "--yes", "--gateway", &a]));
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
    until("it goes on", || two.state_at(&two.address(), "vps").as_deref() == Some("member"));
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
}

#[test]
fn a_gateway_that_lies_about_svids_locks_nobody_out_once_it_is_removed() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    place.joined("web-1");
    two.settle();
    // It says that it made the next SVID, for a key that nobody asked for.
    let lies = rusqlite::Connection::open(place.scope("vps").join("gateway/ledger.db")).unwrap();
    let junk = "ab".repeat(32);
    let told = lies.execute(
        "INSERT INTO issued (node_key, principal, counter, request, teller, made, value)
         SELECT node_key, principal, counter + 1, ?1, 'vps', 1, json_set(value, '$.counter', counter + 1, '$.request', ?1)
         FROM issued WHERE principal LIKE '%/node/web-1' ORDER BY counter DESC LIMIT 1",
        [&junk],
    );
    assert_eq!(told.unwrap(), 1);
    let _ = two.at(&b, &["invite", "create"]);
    let heard = rusqlite::Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let count =
        || heard.query_row("SELECT count(*) FROM issued WHERE request = ?1", [&junk], |row| row.get::<_, i64>(0));
    until("the laptop has heard it", || count().unwrap() == 1);

    let before = counter(place, "web-1");
    let clock = Clock::off(place.path("later"), "+18h");
    let running = agent(place, "web-1", &clock);
    let alarm = || two.at(&a, &["node", "show", "web-1"])["alarm"].clone();
    until("the laptop alarms", || !alarm().is_null());
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    until("it renews again", || counter(place, "web-1") > before);
    drop(running);
}

#[test]
fn a_gateway_with_a_mandate_does_not_leave() {
    let (two, _laptop, _vps) = Two::serving();
    two.settle();
    refused(&two.place.node("vps", &["leave", "--yes"], ""), "is a gateway with a mandate");
    assert!(two.place.scope("vps").join("gateway/ledger.db").exists());
}
