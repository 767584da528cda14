//! Downloads that break off: they go on where they stopped, in the same run or in the next.

use std::path::PathBuf;

use trials::network::shelf::Way;
use trials::place::{ended, stderr, stdout, succeeded};

use super::{Host, Mirror, marking};

const FETCHERS: [[&str; 2]; 2] = [["curl", "sha256sum"], ["wget", "sha256sum"]];

fn parts(host: &Host) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(host.path("bin")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".freehold-node.")).collect()
}

#[test]
fn a_download_that_breaks_off_goes_on_by_itself() {
    for tools in FETCHERS {
        let host = Host::with_only(&tools);
        let agent = marking(&host.path("mark"));
        let mirror = Mirror::of(&agent);
        let half = agent.len() / 2 + 1;
        mirror.shelf.give(&mirror.agent, Way::CutAfter(half));
        let told = mirror.run(&host, &[], "code");
        succeeded(&told);
        assert_eq!(mirror.shelf.asked(&mirror.agent), [None, Some(half)], "{tools:?}: {}", stderr(&told));
        assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
        assert_eq!(parts(&host), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_next_run_goes_on_where_the_last_one_stopped() {
    for tools in FETCHERS {
        let host = Host::with_only(&tools);
        let agent = marking(&host.path("mark"));
        let mirror = Mirror::of(&agent);
        mirror.shelf.give(&mirror.agent, Way::CutAfter(10_000));
        ended(&mirror.run(&host, &[], "code"), 1, "no gateway gave the agent");
        // Four times ten thousand.
        let asked = [None, Some(10_000), Some(20_000), Some(30_000)];
        assert_eq!(mirror.shelf.asked(&mirror.agent), asked, "{tools:?}");
        let [part] = &parts(&host)[..] else { panic!("{:?}", parts(&host)) };
        assert_eq!(trials::place::mode(part), 0o600, "nobody can run it");
        mirror.shelf.give(&mirror.agent, Way::AsItIs);
        let told = mirror.run(&host, &[], "code");
        succeeded(&told);
        assert!(stdout(&told).contains("Going on with freehold-node"), "{}", stdout(&told));
        assert_eq!(mirror.shelf.asked(&mirror.agent), [Some(40_000)], "{tools:?}");
        assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
        assert_eq!(parts(&host), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_part_that_is_wrong_is_fetched_once_more_from_nothing() {
    for tools in FETCHERS {
        let host = Host::with_only(&tools);
        let agent = marking(&host.path("mark"));
        let mirror = Mirror::of(&agent);
        std::fs::create_dir(host.path("bin")).unwrap();
        // Of a process that is no more: no process has this number.
        let part = host.path("bin").join(format!(".freehold-node.{}.999999999", mirror.agent));
        std::fs::write(&part, vec![b'x'; 5000]).unwrap();
        succeeded(&mirror.run(&host, &[], "code"));
        assert_eq!(mirror.shelf.asked(&mirror.agent), [Some(5000), None], "{tools:?}");
        assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
        assert_eq!(parts(&host), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_gateway_that_cannot_go_on_in_the_middle_is_asked_for_everything() {
    for tools in FETCHERS {
        let host = Host::with_only(&tools);
        let agent = marking(&host.path("mark"));
        let mirror = Mirror::of(&agent);
        std::fs::create_dir(host.path("bin")).unwrap();
        let part = host.path("bin").join(format!(".freehold-node.{}.999999999", mirror.agent));
        std::fs::write(&part, &agent[..5000]).unwrap();
        mirror.shelf.give(&mirror.agent, Way::Whole);
        let told = mirror.run(&host, &[], "code");
        succeeded(&told);
        assert_eq!(mirror.shelf.asked(&mirror.agent).first(), Some(&Some(5000)), "{tools:?}");
        assert_eq!(std::fs::read(host.agent()).unwrap(), agent, "{}", stderr(&told));
    }
}

#[test]
fn a_gateway_that_is_busy_is_asked_once_more() {
    for tools in FETCHERS {
        let host = Host::with_only(&tools);
        let mirror = Mirror::of(&marking(&host.path("mark")));
        mirror.shelf.give(&mirror.list, Way::BusyOnce);
        let told = mirror.run(&host, &[], "code");
        succeeded(&told);
        assert_eq!(mirror.shelf.asked(&mirror.list), [None, None], "{}", stderr(&told));
    }
}

#[test]
fn two_runs_at_once_are_not_in_each_others_way() {
    let host = Host::new();
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let url = mirror.shelf.url();
                let mut command = host.command(&mirror.words(&url, &["--reinstall"]));
                succeeded(&command.stdin(std::process::Stdio::null()).output().unwrap());
            });
        }
    });
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
    assert_eq!(parts(&host), Vec::<PathBuf>::new());
}

#[test]
fn what_runs_that_are_no_more_left_of_other_agents_is_swept() {
    let host = Host::new();
    let mirror = Mirror::of(&marking(&host.path("mark")));
    std::fs::create_dir(host.path("bin")).unwrap();
    std::fs::write(host.path("bin").join(format!(".freehold-node.{}.999999999", "0".repeat(64))), "old").unwrap();
    // Of a run that is still there: this process stands for it.
    let theirs = host.path("bin").join(format!(".freehold-node.{}.{}", "1".repeat(64), std::process::id()));
    std::fs::write(&theirs, "busy").unwrap();
    succeeded(&mirror.run(&host, &[], "code"));
    assert_eq!(parts(&host), [theirs]);
}
