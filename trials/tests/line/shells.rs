//! The whole way, in every shell: from the words of a line and a code to a member, with the real agent.

use std::process::Command;

use trials::place::{Place, output, stderr, stdout, succeeded, text};

use super::{Host, SHELLS, Stock, real_agent, script};

#[test]
fn every_shell_makes_a_member_and_a_second_run_changes_nothing() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let agent = real_agent();
    let stock = Stock::of(&agent);
    for (number, shell) in SHELLS.into_iter().enumerate() {
        let (host, name) = (Host::with_shell(shell), format!("web-{number}"));
        let invite = place.invite(&["--name", &name]);
        let code = text(&invite, "code");
        let told = stock.run(&host, &["--name", &name], &code);
        assert!(told.status.success(), "{shell:?}: {}{}", stdout(&told), stderr(&told));
        assert!(stdout(&told).contains("is a member of `harbor`"), "{shell:?}: {}", stdout(&told));
        assert!(stdout(&told).contains("freehold-node run --as harbor"), "{shell:?}: {}", stdout(&told));
        assert_eq!(place.state_of(&name).as_deref(), Some("member"), "{shell:?}");
        assert_eq!(trials::place::mode(&host.agent()), 0o755);
        assert_eq!(stock.shelf.asked(&stock.agent).len(), 1);
        let key = std::fs::read(host.path("orgs/harbor/node.key")).unwrap();
        let told = stock.run(&host, &["--name", &name], &code);
        assert!(told.status.success(), "{shell:?}: {}{}", stdout(&told), stderr(&told));
        assert!(stdout(&told).contains("is installed already"), "{shell:?}: {}", stdout(&told));
        assert!(stdout(&told).contains("is a member of `harbor`"), "{shell:?}: {}", stdout(&told));
        assert_eq!(std::fs::read(host.path("orgs/harbor/node.key")).unwrap(), key);
        assert_eq!(place.spent(&text(&invite, "id")), 1);
        assert_eq!(stock.shelf.asked(&stock.agent), [], "nothing is fetched twice");
    }
}

#[test]
fn every_shell_refuses_an_agent_that_was_swapped() {
    for shell in SHELLS {
        let host = Host::with_shell(shell);
        let agent = super::marking(&host.path("mark"));
        let stock = Stock::of(&agent);
        let theirs = [&agent[..], b"# theirs\n"].concat();
        stock.shelf.give(&stock.agent, trials::shelf::Way::Instead(theirs));
        let told = stock.run(&host, &[], "code");
        assert_eq!(told.status.code(), Some(3), "{shell:?}: {}", stderr(&told));
        assert!(stderr(&told).contains("is not what the line names"), "{shell:?}: {}", stderr(&told));
        assert!(!host.path("mark").exists(), "{shell:?}");
    }
}

#[test]
fn the_code_is_in_no_argument_environment_or_file() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let agent = real_agent();
    let stock = Stock::of(&agent);
    let host = Host::new();
    let code = place.code(&["--name", "web-1"]);
    let url = stock.shelf.url();
    let command = host.command(&stock.words(&url, &["--name", "web-1"]));
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
