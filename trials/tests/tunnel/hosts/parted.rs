//! Two hosts lose each other without a word: both find out, say so, and find each other again.

use std::process::{Child, Command, Output, Stdio};

use trials::place::stdout;

use super::Town;

/// Each of them takes its time.
fn at_once(commands: impl Iterator<Item = Command>) -> Vec<Output> {
    let start = |mut command: Command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun: Vec<Child> = commands.map(start).collect();
    begun.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn a_host_that_is_gone_without_a_word_is_missed_by_both_ends_and_found_again() {
    let mut town = Town::new(&["beta", "gamma"], &[]);
    let alpha = town.lan.address("alpha");
    let nodes = format!(
        "  quay:
  alpha:
    address: \"{alpha}:7444\"
  beta:
    tunnel: {{transport: tls}}
  gamma:
    tunnel: {{transport: quic}}
"
    );
    let callers = ["beta", "gamma"];
    town.settle(&nodes, &callers, "");
    town.only("tls", &[town.lan.address("beta")]);
    town.only("quic", &[town.lan.address("gamma")]);
    let open = callers.map(|caller| town.stream(caller));
    for stream in &open {
        stream.carries();
    }
    assert_eq!(callers.map(|caller| town.way(caller, "alpha")["transport"].clone()), ["tls", "quic"]);
    for caller in callers {
        town.lan.part("alpha", caller);
    }
    // No byte is on its way: only signs of life are missed.
    for stream in open {
        stream.breaks();
    }
    let doctor = |caller: &&str| town.lan.on(caller, &town.place.node_command(caller, &["doctor", "wiki"]));
    for told in at_once(callers.iter().map(doctor)) {
        let told = stdout(&told);
        let peer: Vec<&str> = told.lines().filter(|line| line.contains("`alpha` over ")).collect();
        assert_eq!(peer.len(), 2, "{told}");
        assert!(peer.iter().all(|line| line.contains("answer") && !line.starts_with("ok")), "{told}");
    }
    for page in at_once(callers.iter().map(|caller| town.curl_command(caller, "wiki"))) {
        assert!(!page.status.success(), "{}", stdout(&page));
    }
    for caller in callers {
        assert!(town.way(caller, "alpha")["problem"].is_string());
    }
    town.lan.mend();
    for caller in callers {
        town.reads(caller);
        town.stream(caller).carries();
    }
    assert_eq!(town.tunnel("alpha")["restarts"], 0);
}
