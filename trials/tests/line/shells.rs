//! The whole way, in every shell: from the words of a line and a code to a member, with the real agent.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use trials::place::{Place, Running, mode, output, stderr, stdout, succeeded, text};

use super::{Host, Mirror, SHELLS, real_agent, script};

/// An org whose gateway serves the real agent.
fn released() -> (Place, Running) {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let agent = place.path("freehold-node");
    std::fs::write(&agent, real_agent()).unwrap();
    succeeded(&place.freehold(&["release", "add", &agent.to_string_lossy()]));
    (place, gateway)
}

/// The line itself, pasted into a shell that is also this machine's `sh`.
fn paste(host: &Host, name: &str, line: &str) -> Output {
    let mut command = host.shell();
    command.env("FREEHOLD_NAME", name);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    let told = child.wait_with_output().unwrap();
    assert!(told.status.success(), "{:?}: {}{}", host.shell, stdout(&told), stderr(&told));
    told
}

#[test]
fn the_line_makes_a_member_in_every_shell_and_a_second_paste_changes_nothing() {
    let (place, _gateway) = released();
    for (number, shell) in SHELLS.into_iter().enumerate() {
        let (mut host, name) = (Host::with_shell(shell), format!("web-{number}"));
        host.tool("sh", &format!("#!/bin/dash\nexec {} \"$@\"\n", shell.join(" ")));
        let invite = place.invite(&["--name", &name]);
        let line = text(&invite, "line");
        assert!(line.len() < 450, "{} letters: {line}", line.len());
        let told = paste(&host, &name, &line);
        assert!(stdout(&told).contains(&format!("`{name}` is a member of `harbor`")), "{shell:?}: {}", stdout(&told));
        assert!(stdout(&told).contains("freehold-node run --as harbor"), "{shell:?}: {}", stdout(&told));
        assert_eq!(place.state_of(&name).as_deref(), Some("member"), "{shell:?}");
        assert_eq!(mode(&host.agent()), 0o755);
        let key = std::fs::read(host.path("orgs/harbor/node.key")).unwrap();
        let told = paste(&host, &name, &line);
        assert!(stdout(&told).contains("is installed already"), "{shell:?}: {}", stdout(&told));
        assert!(stdout(&told).contains("is a member of `harbor`"), "{shell:?}: {}", stdout(&told));
        assert_eq!(std::fs::read(host.path("orgs/harbor/node.key")).unwrap(), key);
        assert_eq!(place.spent(&text(&invite, "id")), 1);
    }
}

#[test]
fn the_line_works_with_wget_and_openssl_alone() {
    let (place, _gateway) = released();
    let host = Host::with_only(&["wget", "openssl", "mktemp", "grep", "dd"]);
    paste(&host, "web-1", &text(&place.invite(&["--name", "web-1"]), "line"));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn every_shell_refuses_an_agent_that_was_swapped() {
    for shell in SHELLS {
        let host = Host::with_shell(shell);
        let agent = super::marking(&host.path("mark"));
        let mirror = Mirror::of(&agent);
        let theirs = [&agent[..], b"# theirs\n"].concat();
        mirror.shelf.give(&mirror.agent, trials::network::shelf::Way::Instead(theirs));
        let told = mirror.run(&host, &[], "code");
        assert_eq!(told.status.code(), Some(3), "{shell:?}: {}", stderr(&told));
        assert!(stderr(&told).contains("is not what the line names"), "{shell:?}: {}", stderr(&told));
        assert!(!host.path("mark").exists(), "{shell:?}");
    }
}

#[test]
fn every_shell_understands_every_word() {
    for shell in SHELLS {
        let host = Host::with_shell(shell);
        let mirror = Mirror::of(&super::marking(&host.path("mark")));
        let said = |words: &[&str], what: &str| {
            let told = mirror.run(&host, words, "code");
            assert!(told.status.success(), "{shell:?} {words:?}: {}{}", stdout(&told), stderr(&told));
            assert!(stdout(&told).contains(what), "{shell:?} {words:?}: {}", stdout(&told));
        };
        said(&["--dry-run"], "Nothing was changed.");
        said(&[], "freehold-node run --as harbor");
        said(&["--reinstall", "--as", "quarry", "--label", "a=b c"], "Fetching freehold-node 0.1.0");
        std::fs::create_dir_all(host.path("orgs/harbor")).unwrap();
        std::fs::write(host.path("orgs/harbor/node.key"), "").unwrap();
        said(&["--reinstall"], "are untouched");
        said(&["--uninstall", "--dry-run"], "would leave: freehold-node leave --as harbor");
        said(&["--uninstall"], "Freehold is removed");
        assert!(!host.agent().exists(), "{shell:?}");
        let ran = std::fs::read_to_string(host.path("mark")).unwrap();
        assert_eq!(ran.lines().last(), Some("leave"), "{shell:?}: {ran}");
        let told = host.run(&["--root", "12"], "");
        assert_eq!(told.status.code(), Some(2), "{shell:?}: {}", stderr(&told));
    }
}

#[test]
fn the_code_is_in_no_argument_environment_or_file() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let agent = real_agent();
    let mirror = Mirror::of(&agent);
    let host = Host::new();
    let code = place.code(&["--name", "web-1"]);
    let url = mirror.shelf.url();
    let command = host.command(&mirror.words(&url, &["--name", "web-1"]));
    // Every word and every variable of every program, and all that is written anywhere.
    let log = host.path("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-v", "-s", "100000", "-e", "trace=execve,write,pwrite64,writev", "-o"]).arg(&log);
    strace.arg("--").arg(command.get_program()).args(command.get_args());
    strace.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let code_file = host.path("code");
    std::fs::write(&code_file, &code).unwrap();
    strace.stdin(std::fs::File::open(code_file).unwrap());
    succeeded(&output(strace));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("freehold-node\", \"join\"") && log.contains("write("), "the trace saw nothing");
    let secret = &code[code.len() - 40..];
    assert!(!log.contains(secret), "{}", log.lines().find(|line| line.contains(secret)).unwrap_or_default());
}

#[test]
fn the_script_is_clean_and_plain() {
    let mut command = Command::new("shellcheck");
    command.args(["-s", "sh"]).arg(script());
    succeeded(&output(command));
    let text = std::fs::read_to_string(script()).unwrap();
    assert!(text.is_ascii() && text.ends_with("\n\nmain \"$@\"\n"));
}
