//! A run that is killed before any of its steps: what it leaves is whole or absent, and the next run ends well.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use trials::network::shelf::sha256;
use trials::place::{Place, output, stderr, stdout, succeeded, text};

use super::{Host, Mirror, marking, real_agent};

/// The programs by which the script does anything at all.
const STEPS: [&str; 12] =
    ["mktemp", "mkdir", "uname", "curl", "sha256sum", "wc", "df", "chmod", "sync", "mv", "rm", "tr"];

/// Before its `at`th step, the whole run is killed.
fn killed(host: &Host, mirror: &Mirror, at: usize) -> bool {
    let count = host.path("count");
    std::fs::write(&count, "").unwrap();
    let url = mirror.shelf.url();
    let mut command = host.command(&mirror.words(&url, &[]));
    command.env("AT", at.to_string()).env("COUNT", &count).process_group(0);
    let told = command.stdin(Stdio::null()).output().unwrap();
    let killed = told.status.signal() == Some(9);
    assert!(killed || told.status.success(), "{at}: {}{}", stdout(&told), stderr(&told));
    killed
}

#[test]
fn a_run_that_is_killed_before_any_step_leaves_nothing_half_done() {
    let mut host = Host::new();
    for step in STEPS {
        // One byte for each step; the process group is the run's own.
        let text = format!(
            "#!/bin/dash\nprintf x >>\"$COUNT\"\nread -r n <\"$COUNT\" || :\n[ ${{#n}} != \"$AT\" ] || kill -9 0\nexec /usr/bin/{step} \"$@\"\n"
        );
        host.tool(step, &text);
    }
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    let mut kills = 0;
    for at in (1..200).step_by(2) {
        if host.agent().exists() {
            assert_eq!(std::fs::read(host.agent()).unwrap(), agent, "{at}");
            std::fs::remove_file(host.agent()).unwrap();
        }
        if !killed(&host, &mirror, at) {
            break;
        }
        kills += 1;
    }
    assert!(kills > 8, "it was killed only {kills} times");
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
    assert_eq!(std::fs::read_dir(host.path("bin")).unwrap().count(), 1, "the last run swept what the others left");
}

#[test]
fn the_real_gateway_goes_on_where_a_run_was_killed() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, agent) = (place.path("freehold-node"), real_agent());
    std::fs::write(&file, &agent).unwrap();
    succeeded(&place.freehold(&["release", "add", &file.to_string_lossy()]));
    let line = text(&place.invite(&["--name", "web-1"]), "line");
    let first = place.org().join("gateway/files").join(&line.split("h=").nth(1).unwrap()[..64]);
    let first = std::fs::read_to_string(first).unwrap();
    let words = first.split("\nsh join.sh ").nth(1).unwrap().split(" ${1+").next().unwrap().replace('\'', "");
    for fetcher in ["curl", "wget"] {
        let mut host = Host::with_only(&["sha256sum"]);
        // Tells how often it is called.
        host.tool(fetcher, &format!("#!/bin/dash\necho \"$*\" >>\"$HOME/calls\"\nexec /usr/bin/{fetcher} \"$@\"\n"));
        std::fs::create_dir(host.path("bin")).unwrap();
        let part = format!(".freehold-node.{}.999999999", sha256(&agent));
        std::fs::write(host.path("bin").join(part), &agent[..agent.len() / 2]).unwrap();
        let words: Vec<&str> = words.split(' ').chain(["--name", fetcher]).collect();
        let told = host.run(&words, &place.code(&["--name", fetcher]));
        succeeded(&told);
        assert!(stdout(&told).contains("Going on with freehold-node"), "{}", stdout(&told));
        assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
        assert_eq!(place.state_of(fetcher).as_deref(), Some("member"));
        let calls = std::fs::read_to_string(host.path("calls")).unwrap();
        let calls = calls.lines().filter(|call| call.contains("/v1/file/")).count();
        assert_eq!(calls, 3, "root, list and the rest of the agent: nothing was fetched twice");
    }
}

#[test]
fn whoever_looks_on_sees_it_move() {
    for (tools, sign) in [(["curl", "sha256sum"], "100.0%"), (["wget", "sha256sum"], "100%")] {
        let host = Host::with_only(&tools);
        let mirror = Mirror::of(&marking(&host.path("mark")));
        let url = mirror.shelf.url();
        let command = host.command(&mirror.words(&url, &[]));
        let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        // On a terminal.
        let mut script = Command::new("/usr/bin/script");
        script.args(["-qec", &format!("dash {words}"), "/dev/null"]).stdin(Stdio::null());
        script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let told = output(script);
        assert!(stdout(&told).contains(sign) && host.agent().exists(), "{tools:?}: {}", stdout(&told));
    }
}
