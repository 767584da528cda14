//! Where other programs read the roots, and what a machine says of its own.

use std::fs;
use std::os::unix::fs::symlink;

use trials::place::{Place, ended, output, succeeded, until};

use super::{in_force, trust};

#[test]
fn both_files_can_lie_elsewhere_and_never_be_one() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let there = place.path("there");
    fs::create_dir(&there).unwrap();
    symlink(&there, place.path("there-too")).unwrap();
    let at = |name: &str| there.join(name).to_str().unwrap().to_owned();
    let paths = |endpoint: &str, identity: &str| {
        output(place.node_command("web-1", &["trust", "paths", "--endpoint", endpoint, "--identity", identity]))
    };
    let too = place.path("there-too/a.pem").to_str().unwrap().to_owned();
    for same in [at("a.pem"), at("../there/a.pem"), too] {
        ended(&paths(&at("a.pem"), &same), 3, "are one file");
    }
    fs::write(at("notes.txt"), "mine").unwrap();
    ended(&paths(&at("notes.txt"), &at("b.pem")), 3, "holds something else than certificates");
    let own = place.scope("web-1").join("node.key").to_str().unwrap().to_owned();
    ended(&paths(&own, &at("b.pem")), 3, "is in this program's own folder");
    let before = |domain: &str| fs::read(place.scope("web-1").join(format!("trust/{domain}.pem"))).unwrap();
    let (endpoint, identity) = (before("endpoint"), before("identity"));

    succeeded(&paths(&at("a.pem"), &at("b.pem")));
    assert_eq!((fs::read(at("a.pem")).unwrap(), fs::read(at("b.pem")).unwrap()), (endpoint.clone(), identity));
    assert!(!place.scope("web-1").join("trust/endpoint.pem").exists(), "what is not kept up to date is not left");
    let agent = place.agent("web-1");
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    until("new roots come there", || fs::read(at("a.pem")).unwrap().len() > endpoint.len());

    // Somebody makes one of the two later: nothing is written through it, and it is said.
    fs::remove_file(at("b.pem")).unwrap();
    fs::hard_link(at("a.pem"), at("b.pem")).unwrap();
    let both = fs::read(at("a.pem")).unwrap();
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    until("it is told", || {
        place.status("web-1")["problem"].as_str().is_some_and(|problem| problem.contains("are one file"))
    });
    assert_eq!(fs::read(at("a.pem")).unwrap(), both);
    fs::remove_file(at("b.pem")).unwrap();
    until("it goes on by itself", || in_force(&place, "web-1", "identity") == [1, 2] && fs::read(at("b.pem")).is_ok());
    assert_eq!(agent.stop(), Some(0));
    succeeded(&output(place.node_command("web-1", &["trust", "paths", "--reset"])));
    assert!(!there.join("a.pem").exists() && place.scope("web-1").join("trust/endpoint.pem").exists());
}

#[test]
fn a_join_says_where_the_roots_go_and_one_file_for_both_is_refused_before_anything_is_spent() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&[]);
    let (a, b) = (place.path("a.pem"), place.path("b.pem"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let join = |endpoint: &str, identity: &str| {
        let words = ["join", "--name", "web-1", "--endpoint-pem", endpoint, "--identity-pem", identity];
        place.node("web-1", &words, &code)
    };
    let told = join(a, a);
    assert!(!told.status.success() && trials::place::stderr(&told).contains("are one file"));
    assert!(!place.scope("web-1").exists());
    succeeded(&join(a, b));
    assert!(fs::read_to_string(a).unwrap().contains("BEGIN CERTIFICATE") && fs::read(b).is_ok());
    assert_eq!(trust(&place, "web-1")["endpoint"]["file"], a);
}

#[test]
fn svids_of_a_machine_and_of_who_is_at_home_there_lead_to_every_root_before_one_is_retired() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let mut command = place.node_command("web-1", &["run", "--every", "2s"]);
    let _agent = trials::place::Running(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    let leads = || trust(&place, "web-1")["svids"][0]["roots"].as_array().map(Vec::len);
    until("its SVID leads to both", || leads() == Some(2));
    let renewed = || place.facts(&["node", "show", "web-1"])["svid_serial"].clone();
    let serial = renewed();
    // It is content with that.
    let mut seen = std::collections::BTreeSet::new();
    until("it has checked in three times more", || {
        seen.extend(place.status("web-1")["last_check_in"].as_str().map(str::to_owned));
        seen.len() >= 4
    });
    assert_eq!(renewed(), serial, "nothing was renewed again");
}
