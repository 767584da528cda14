//! Two hosts lose each other without a word: both find out, say so, and find each other again.

use trials::place::stdout;

use super::Town;

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
    for caller in callers {
        let told = stdout(&town.node(caller, &["doctor", "wiki"]));
        let peer: Vec<&str> = told.lines().filter(|line| line.contains("`alpha` over ")).collect();
        assert_eq!(peer.len(), 2, "{told}");
        assert!(peer.iter().all(|line| line.contains("answer") && !line.starts_with("ok")), "{told}");
        assert!(!town.curl(caller, "wiki").status.success());
        assert!(town.way(caller, "alpha")["problem"].is_string());
    }
    town.lan.mend();
    for caller in callers {
        town.reads(caller);
        town.stream(caller).carries();
    }
    assert_eq!(town.tunnel("alpha")["restarts"], 0);
}
