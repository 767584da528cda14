//! What a machine has already: kept, put in again, removed, or kept beside another org of the same name.

use std::path::PathBuf;

use trials::place::{Place, below, ended, refused, stderr, stdout, succeeded, text};

use super::{Host, Mirror, marking, real_agent, write_program};

fn member(place: &Place, mirror: &Mirror, host: &Host, name: &str, more: &[&str]) {
    let code = place.code(&["--name", name]);
    succeeded(&mirror.run(host, &[&["--name", name], more].concat(), &code));
}

#[test]
fn to_reinstall_puts_the_agent_in_again_and_leaves_the_enrollment_alone() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let agent = real_agent();
    let mirror = Mirror::of(&agent);
    let host = Host::new();
    member(&place, &mirror, &host, "web-1", &[]);
    let state = || -> Vec<(PathBuf, Option<Vec<u8>>)> {
        below(&host.path("orgs")).into_iter().map(|path| (path.clone(), std::fs::read(path).ok())).collect()
    };
    let before = state();
    // An agent that is damaged, as by a disk.
    write_program(&host.agent(), b"#!/bin/sh\nexit 1\n");
    let told = mirror.run(&host, &["--reinstall"], "");
    succeeded(&told);
    assert!(stdout(&told).contains("are untouched"), "{}", stdout(&told));
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
    assert_eq!(state(), before);
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn an_agent_that_does_not_run_is_replaced_without_being_asked() {
    let host = Host::new();
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    std::fs::create_dir(host.path("bin")).unwrap();
    write_program(&host.agent(), b"#!/bin/sh\nexit 1\n");
    succeeded(&mirror.run(&host, &[], "code"));
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
}

#[test]
fn what_lies_in_the_agent_s_place_gets_no_code_unless_the_list_names_it() {
    let host = Host::new();
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    std::fs::create_dir(host.path("bin")).unwrap();
    write_program(&host.agent(), &marking(&host.path("planted")));
    succeeded(&mirror.run(&host, &[], "code"));
    assert!(!host.path("planted").exists(), "it was not even asked for its version");
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
}

#[test]
fn a_machine_that_is_in_an_org_keeps_its_agent_unless_told_otherwise() {
    let host = Host::new();
    let mirror = Mirror::of(&marking(&host.path("mark")));
    let newer = marking(&host.path("newer"));
    std::fs::create_dir(host.path("bin")).unwrap();
    std::fs::create_dir_all(host.path("orgs/other")).unwrap();
    std::fs::write(host.path("orgs/other/node.key"), "a key").unwrap();
    write_program(&host.agent(), &newer);
    succeeded(&mirror.run(&host, &[], "code"));
    assert_eq!(std::fs::read(host.agent()).unwrap(), newer);
    assert_eq!(std::fs::read_to_string(host.path("newer")).unwrap(), "--version\njoin\n");
    assert!(!host.path("mark").exists());
}

#[test]
fn to_uninstall_leaves_then_removes() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let mirror = Mirror::of(&real_agent());
    let host = Host::new();
    member(&place, &mirror, &host, "web-1", &[]);
    let told = host.run(&["--uninstall", "--dry-run"], "");
    succeeded(&told);
    assert!(stdout(&told).contains("would leave: freehold-node leave --as harbor"), "{}", stdout(&told));
    assert!(host.agent().exists() && place.state_of("web-1").as_deref() == Some("member"));
    succeeded(&host.run(&["--uninstall"], ""));
    assert_eq!(place.facts(&["node", "show", "web-1"])["left"], true);
    let left: Vec<_> = below(&host.path("bin")).into_iter().chain(below(&host.path("orgs"))).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    // Again: there is nothing to do.
    succeeded(&host.run(&["--uninstall"], ""));
}

#[test]
fn a_machine_that_cannot_say_goodbye_keeps_everything() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let mirror = Mirror::of(&real_agent());
    let host = Host::new();
    member(&place, &mirror, &host, "web-1", &[]);
    gateway.kill();
    let told = host.run(&["--uninstall"], "");
    ended(&told, 1, "It is still a member, and nothing was removed");
    assert!(host.agent().exists() && host.path("orgs/harbor/node.key").exists());
    succeeded(&host.node(&["leave", "--local", "--yes", "--as", "harbor"]));
    succeeded(&host.run(&["--uninstall"], ""));
    assert!(!host.agent().exists());
}

#[test]
fn two_orgs_of_one_name_live_on_one_machine() {
    let (place, quarry) = (Place::founded(&[]), Place::founded(&[]));
    let _gateways = (place.serve(), quarry.serve());
    let mirror = Mirror::of(&real_agent());
    let host = Host::new();
    member(&place, &mirror, &host, "web-1", &[]);
    let code = quarry.code(&["--name", "web-1", "--uses", "2"]);
    let told = mirror.run(&host, &["--name", "web-1"], &code);
    refused(&told, "already in another org that is also called `harbor`");
    assert!(stderr(&told).contains("--as NAME"), "{}", stderr(&told));
    let told = mirror.run(&host, &["--name", "web-1", "--as", "harbor-2"], &code);
    succeeded(&told);
    assert!(stdout(&told).contains("freehold-node run --as harbor-2"), "{}", stdout(&told));
    let status = |scope: &str| trials::place::json(&host.node(&["status", "--json", "--as", scope]));
    let (one, two) = (status("harbor"), status("harbor-2"));
    assert_eq!((&one["org"], &one["name"]), (&two["org"], &two["name"]));
    assert_ne!(one["org_id"], two["org_id"]);
    for place in [&place, &quarry] {
        assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    }
    ended(&host.node(&["status"]), 2, "several orgs: harbor, harbor-2");
    ended(&host.run(&["--uninstall"], ""), 2, "several orgs: harbor-2 harbor");
    let told = host.run(&["--uninstall", "--as", "harbor"], "");
    succeeded(&told);
    assert!(stdout(&told).contains("stays: this machine is still in harbor-2"), "{}", stdout(&told));
    assert_eq!(place.facts(&["node", "show", "web-1"])["left"], true);
    assert_eq!(quarry.state_of("web-1").as_deref(), Some("member"));
    succeeded(&host.run(&["--uninstall"], ""));
    assert!(!host.agent().exists());
}

#[test]
fn a_dry_run_changes_nothing() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let host = Host::new();
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    let before = below(host.folder.path());
    let invite = place.invite(&["--name", "web-1"]);
    let words = ["--dry-run", "--name", "web-1", "--label", "rack=a b"];
    let told = mirror.run(&host, &words, &text(&invite, "code"));
    succeeded(&told);
    for said in [
        "would fetch freehold-node 0.1.0 for linux x86_64",
        "join --name web-1 --label rack=a b",
        "Nothing was changed",
    ] {
        assert!(stdout(&told).contains(said), "no `{said}` in: {}", stdout(&told));
    }
    assert_eq!(below(host.folder.path()), before);
    assert_eq!(mirror.shelf.asked(&mirror.agent), []);
    assert_eq!(place.spent(&text(&invite, "id")), 0);
}

#[test]
fn labels_and_roles_reach_the_agent_as_they_are() {
    let host = Host::new();
    let mark = host.path("words");
    let agent =
        format!("#!/bin/sh\nprintf '<%s>' \"$@\" >>'{}'\n[ \"$1\" != join ] || echo harbor >\"$3\"\n", mark.display());
    let mirror = Mirror::of(agent.as_bytes());
    let words = ["--label", "a=b c", "--role", "*", "--as", "x", "--label", "d=$HOME", "--name", "web-1"];
    succeeded(&mirror.run(&host, &words, "code"));
    let told = std::fs::read_to_string(mark).unwrap();
    let wanted = "<--as><x><--label><a=b c><--role><*><--label><d=$HOME><--name><web-1>";
    assert!(told.ends_with(wanted), "{told}");
}
