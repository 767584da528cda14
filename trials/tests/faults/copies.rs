//! Copies: two gateways on one home, a store copied while it is written, a copy that serves elsewhere, a home that
//! moved.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use trials::client::joiner::Joiner;
use trials::client::stranger::Dial;
use trials::place::{Place, binary, ended, json, output, stderr, succeeded, text, until};
use wire::permit::Ask;

use super::{copy, log_of, serve, start};

fn freehold_at(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary("freehold"));
    command.args(words).arg("--home").arg(home).env("USER", "ann").stdin(Stdio::null());
    command
}

fn at(home: &Path, words: &[&str]) -> Output {
    output(freehold_at(home, words))
}

#[test]
fn a_second_gateway_on_one_home_is_told_who_the_first_is() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    let told = place.freehold(&["serve", "--listen", "127.0.0.1:0"]);
    ended(&told, 1, "another process is the gateway of this folder");
    let (pid, address) = (gateway.0.id(), place.address());
    assert!(stderr(&told).contains(&format!("process {pid} serves it at {address}")), "{}", stderr(&told));
    // A word that a killed gateway left is not believed: then nobody serves, and the next one does.
    gateway.kill();
    assert!(place.org().join("gateway/serving.json").exists());
    let gateway = serve(&place, None);
    assert_eq!(gateway.stop(), Some(0));
}

#[test]
fn a_store_copied_while_it_is_written_opens_or_is_refused() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let code = place.code(&["--uses", "unlimited"]);
    let (mut opened, mut refused) = (0, 0);
    let enough = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let joins = scope.spawn(|| {
            let mut joined = 0;
            while !enough.load(Ordering::Relaxed) {
                Joiner::join(&code, &format!("web-{joined}"), place.port);
                joined += 1;
            }
            joined
        });
        for number in 0..12 {
            let case = place.path(&format!("copy-{number}"));
            copy(&place.home(), &case);
            let told = at(&case, &["audit", "--verify", "--json"]);
            // Refused, in words, or whole: never half.
            if told.status.success() {
                assert_eq!(json(&told)["ok"], true, "{number}");
                opened += 1;
            } else {
                let words = stderr(&told);
                assert!(words.contains("hint"), "{number}: {words}");
                refused += 1;
            }
            std::fs::remove_dir_all(case).unwrap();
        }
        enough.store(true, Ordering::Relaxed);
        assert!(joins.join().unwrap() > 12, "nothing was written meanwhile");
    });
    assert!(opened > 0, "no copy at all could be read; {refused} were refused");
}

#[test]
fn a_copy_that_serves_elsewhere_stops_issuing_when_it_is_shown_what_it_missed() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let (old, early) = (place.code(&["--uses", "3"]), place.path("elsewhere"));
    place.joined("web-1");
    copy(&place.home(), &early);
    // The word of the gateway that runs: it is not the copy's.
    std::fs::remove_file(early.join("harbor/gateway/serving.json")).unwrap();
    place.joined("web-2");
    let second = Place::new();
    let command = freehold_at(&early, &["serve", "--json", "--listen", &second.address()]);
    let (_copy, ready) = start(&second, command);
    assert!(ready, "{}", log_of(&second));
    // Alone it cannot know: it has the keys and the mandate.
    Joiner::join(&old, "lured", second.port);
    // An operator who has seen more goes there by mistake: both branches are seen, and neither counts.
    place.facts(&["node", "list"]);
    let told = json(&place.freehold(&["node", "list", "--json", "--gateway", &second.address()]));
    let waits =
        |name: &str| told.as_array().unwrap().iter().any(|row| row["name"] == name && row["state"] == "waiting");
    assert!(waits("lured") && waits("web-2"), "{told}");
    let mut line = Dial::to(second.port).line();
    assert_eq!(line.code(Ask::Challenge, &()), "ledger_behind");
    // The voice forked, wherever it is used: operators choose, and the one that is theirs goes on with another.
    succeeded(&place.freehold(&["gateway", "reopen", "vm", "--yes"]));
    place.joined("web-3");
    assert_ne!(place.state_of("lured").as_deref(), Some("member"));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_home_and_a_scope_that_moved_work_where_they_are() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("web-1");
    // Killed, so that what it left behind names a process and an address of the old machine.
    gateway.kill();
    let (home, root) = (place.path("other/disk/home"), place.path("other/root"));
    std::fs::create_dir_all(place.path("other/disk")).unwrap();
    std::fs::rename(place.home(), &home).unwrap();
    std::fs::rename(place.root("web-1"), &root).unwrap();
    assert_eq!(json(&at(&home, &["node", "list", "--json"])).as_array().unwrap().len(), 2);
    let command = freehold_at(&home, &["serve", "--json", "--listen", &place.address()]);
    let (_gateway, ready) = start(&place, command);
    assert!(ready, "{}", log_of(&place));
    let invite = json(&at(&home, &["invite", "create", "--json"]));
    succeeded(&place.join("web-2", &text(&invite, "code")));
    let node = |words: &[&str]| {
        let mut command = Command::new(binary("freehold-node"));
        command.args(words).arg("--root").arg(&root).stdin(Stdio::null());
        output(command)
    };
    assert_eq!(json(&node(&["status", "--json"]))["state"], "member");
    succeeded(&node(&["leave", "--yes"]));
    // Where it was, the commands say that it is gone and what to say instead.
    let told = place.freehold(&["node", "list"]);
    ended(&told, 1, "there is no org in");
    assert!(stderr(&told).contains("--home DIR"), "{}", stderr(&told));
    ended(&place.node("web-1", &["status"], ""), 1, "no org was joined under");
}

#[test]
fn a_home_on_a_machine_with_another_address_says_where_its_machines_look_for_it() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    // It serves at another port than the one that its machines know.
    let other = Place::new();
    let command = freehold_at(&place.home(), &["serve", "--listen", &other.address()]);
    let mut child = { command }.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let _gateway = trials::place::Running(child);
    assert!(line.contains(&format!("listens on {}", other.address())), "{line}");
    assert!(line.contains(&format!("machines find it at {}", place.address())), "{line}");
    // Operators on this machine reach it all the same; a machine says which address it tried.
    assert_eq!(place.facts(&["node", "list"]).as_array().unwrap().len(), 2);
    let agent = place.agent("web-1");
    until("it says where it looked", || {
        let told = place.status("web-1")["problem"].as_str().unwrap_or_default().to_owned();
        told.contains(&format!("cannot reach the gateway at {}", place.address()))
    });
    assert_eq!(agent.stop(), Some(0));
}
