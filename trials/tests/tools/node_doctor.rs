//! `freehold-node doctor`: each thing that it looks at is broken for real, and it says so and how to cure it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use trials::place::{Place, stderr, stdout, succeeded, until};

use super::illness::{Told, elsewhere, in_a_small_disk, on_a_clock};

fn doctor(place: &Place, node: &str) -> Told {
    Told::by(place.node_command(node, &["doctor", "--json"]))
}

#[test]
fn a_node_that_is_well_passes() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    doctor(&place, "web-1").has("WRONG", "agent", "it does not run", "freehold-node run");
    let _agent = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    let told = doctor(&place, "web-1");
    told.is_well();
    for subject in
        ["version", "clock", "files", "disk", "membership", "svid", "head", "mandate", "agent", "gateway", "endpoint"]
    {
        assert_eq!(told.mark(subject), "ok", "{told:?}");
    }
}

#[test]
fn without_its_gateway_it_says_so_in_two_places() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    gateway.kill();
    until("the agent has noticed", || doctor(&place, "web-1").mark("agent") == "wrong");
    let told = doctor(&place, "web-1");
    told.has("WRONG", "agent", "it runs, but: cannot reach the gateway", "it tries again by itself");
    told.has("WRONG", "gateway", "Connection refused", "freehold serve");
    assert_eq!(told.mark("clock"), "ok");
}

#[test]
fn an_svid_that_ended_and_a_key_that_others_can_read_are_told() {
    let place = Place::founded(&["--svid-ttl", "10s"]);
    let _gateway = place.serve();
    place.joined("web-1");
    until("its renewal is overdue", || doctor(&place, "web-1").mark("svid") != "ok");
    until("it has ended", || doctor(&place, "web-1").mark("svid") == "wrong");
    doctor(&place, "web-1").has("WRONG", "svid", "it ended at", "freehold-node run");
    let key = place.scope("web-1").join("node.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let told = doctor(&place, "web-1");
    told.has("WRONG", "files", "node.key is open to others (mode 644)", "chmod 600");
    told.has("WRONG", "files", "node.key", "replace that key");
    told.has("WRONG", "membership", "can be read by others", "join anew");
}

#[test]
fn a_revoked_machine_learns_what_is_left_to_do() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(agent.end().0, Some(3));
    let told = doctor(&place, "web-1");
    told.has("WRONG", "membership", "operators revoked web-1", "freehold-node leave --local");
    // What follows from it is left out: nothing else helps.
    assert_eq!(told.count("wrong"), 1, "{told:?}");
    let status = stdout(&place.node("web-1", &["status"], ""));
    assert!(status.contains("not running; operators revoked this machine; join as a new machine"), "{status}");
    let told = Told::by(place.node_command("web-1", &["doctor", "wiki", "--json"]));
    assert_eq!(told.count("wrong"), 1, "{told:?}");
}

#[test]
fn damage_to_each_file_is_told_with_its_cure() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let break_it = |name: &str, subject: &str, cure: &str| {
        let path = place.scope("web-1").join(name);
        let whole = std::fs::read(&path).unwrap();
        for broken in [&b""[..], &whole[..whole.len() / 2], b"\0\xff garbage"] {
            std::fs::write(&path, broken).unwrap();
            doctor(&place, "web-1").has("WRONG", subject, "", cure);
        }
        std::fs::write(&path, whole).unwrap();
        assert_ne!(doctor(&place, "web-1").mark(subject), "wrong", "{name}");
    };
    break_it("node.json", "membership", "put the file back");
    break_it("known.json", "membership", "put the file back");
    break_it("node.key", "membership", "put the file back");
    break_it("current/svid.pem", "svid", "let the agent fetch another");
    break_it("current/svid.key", "svid", "let the agent fetch another");
    break_it("trust/endpoint.pem", "trust", "writes it again");
    break_it("trust/identity.pem", "trust", "writes it again");
    // A join that was cut off before its end.
    std::fs::remove_file(place.scope("web-1").join("node.json")).unwrap();
    doctor(&place, "web-1").has("WRONG", "membership", "is not finished", "run the line of the invite again");
    std::fs::remove_dir_all(place.scope("web-1")).unwrap();
    doctor(&place, "web-1").has("WRONG", "membership", "no org was joined", "freehold-node join");
    let lagoon = || Told::by(place.node_command("web-1", &["doctor", "wiki", "--org", "lagoon", "--json"]));
    lagoon().has("WRONG", "membership", "no org lagoon was joined under", "freehold-node join");
    std::fs::create_dir_all(place.scope("web-1")).unwrap();
    lagoon().has("WRONG", "membership", "joined were harbor", "--org harbor");
    assert_eq!(lagoon().count("wrong"), 1);
}

#[test]
fn the_cure_for_a_damaged_svid_works() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    std::fs::write(place.scope("web-1").join("current/svid.pem"), "garbage").unwrap();
    doctor(&place, "web-1").has("WRONG", "svid", "is damaged", "let the agent fetch another: freehold-node run");
    let _agent = place.agent("web-1");
    until("it has an SVID again", || doctor(&place, "web-1").mark("svid") == "ok");
}

#[test]
fn another_user_another_clock_and_a_small_disk_are_told() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let ask = || place.node_command("web-1", &["doctor", "--json"]);
    on_a_clock("-2h", &ask()).has("WRONG", "clock", "slow", "timedatectl set-ntp true");
    on_a_clock("+2h", &ask()).has("WRONG", "clock", "ahead of the gateway's clock", "find out which is wrong");
    let told = on_a_clock("+40d", &ask());
    told.has("WRONG", "head", "was fresh only until", "an operator renews it");
    told.has("WRONG", "svid", "it ended at", "is this clock fast?");
    told.has("WRONG", "gateway", "days apart", "set the clock that is wrong");
    let root = place.root("web-1");
    let words = ["doctor", "--json", "--root"];
    elsewhere(&place, &root, "freehold-node", &words).has(
        "WRONG",
        "files",
        "Permission denied",
        "run this as the user",
    );
    in_a_small_disk(&place, &root, "freehold-node", &words).has("WRONG", "disk", "MiB free", "make room");
}

/// There the agent is inside `freehold serve`, and `freehold-node` knows of no scope.
#[test]
fn on_the_gateways_own_machine_each_hint_names_what_works_there() {
    let place = Place::founded(&[]);
    let here = |words: &[&str]| {
        let told = place.freehold(&[&["here"], words].concat());
        let said = format!("{}{}", stdout(&told), stderr(&told));
        assert!(!said.contains("freehold-node"), "here {words:?}: {said}");
        said
    };
    let looks: [&[&str]; 8] = [
        &["status"],
        &["port", "wiki"],
        &["top", "--once"],
        &["caller", "127.0.0.1:1"],
        &["doctor"],
        &["doctor", "wiki"],
        &["sync"],
        &["trust"],
    ];
    for words in looks {
        here(words);
        here(&[words[0], "--help"]);
    }
    assert!(here(&["status"]).contains("not running; start it: freehold serve"));
    let gateway = place.serve();
    until("its agent has checked in", || here(&["status"]).contains("running, checked in at"));
    for words in looks {
        here(words);
    }
    assert!(here(&["port", "wiki"]).contains("freehold here sync"));
    assert!(here(&["doctor", "wiki"]).contains("freehold here sync"));
    succeeded(&place.freehold(&["here", "sync"]));
    assert_eq!(gateway.stop(), Some(0));
    let about = place.org().join("gateway/node/node.json");
    std::fs::write(&about, "{").unwrap();
    assert!(here(&["doctor"]).contains("freehold backup restore"));
    std::fs::remove_file(&about).unwrap();
    for words in [&["doctor"], &["status"]] {
        let said = here(words);
        assert!(said.contains("what the founding wrote") && said.contains("freehold backup restore"), "{said}");
    }
}

#[test]
fn a_file_that_a_gateway_tells_again_heals_and_is_told_until_then() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let scope = place.scope("web-1");
    let names = [
        "admission.json",
        "tip.json",
        "tips/harbor-master.json",
        "last-good.json",
        "refused.json",
        "left.json",
        "suspensions.json",
        "listing.json",
        "tunnel.json",
    ];
    std::fs::create_dir_all(scope.join("tips")).unwrap();
    std::fs::set_permissions(scope.join("tips"), Permissions::from_mode(0o700)).unwrap();
    let harm = |text: &str| {
        for name in names.iter().chain(&["steady.json"]) {
            std::fs::write(scope.join(name), text).unwrap();
        }
    };
    harm("half of it");
    let told = doctor(&place, "web-1");
    for name in names {
        told.has("soon", "files", &format!("{name} is damaged"), "the agent writes it anew: freehold-node run");
    }
    let agent = place.agent("web-1");
    let heals = || {
        until("nothing is damaged any more", || doctor(&place, "web-1").count("soon") == 0);
        until("what it needs is there again", || {
            ["admission.json", "tip.json"].iter().all(|name| scope.join(name).exists())
        });
        doctor(&place, "web-1").is_well();
    };
    heals();
    // While it runs, too: what is JSON and of another kind is as good as nothing.
    harm("{\"of\": \"another kind\"}");
    heals();
    drop(agent);
    std::fs::write(place.scope("web-1").join("known.json"), "half of it").unwrap();
    doctor(&place, "web-1").has("WRONG", "membership", "known.json is damaged", "put the file back from a copy");
}

#[test]
fn a_proof_of_joining_that_is_damaged_comes_with_the_next_renewal() {
    let place = Place::founded(&["--svid-ttl", "20s"]);
    let _gateway = place.serve();
    place.joined("web-1");
    let file = place.scope("web-1").join("admission.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "half of it").unwrap();
    doctor(&place, "web-1").has("soon", "files", "admission.json is damaged", "the agent writes it anew");
    let _agent = place.agent("web-1");
    until("it is whole again", || std::fs::read(&file).unwrap() == whole);
}
