//! Killing: the gateway dies in the middle of many joins, machines die in the middle of theirs; nothing is lost, and
//! nothing is spent twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use trials::place::{Place, Running, succeeded, text, until};

const MACHINES: usize = 200;
const AT_A_TIME: usize = 8;
/// The gateway is killed when this many machines have joined.
const KILLS: [usize; 6] = [5, 25, 60, 95, 130, 170];

#[test]
fn a_gateway_killed_amid_two_hundred_joins_loses_and_repeats_nothing() {
    let place = Place::founded(&[]);
    let invite = place.invite(&["--uses", &MACHINES.to_string()]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let mut waiting: Vec<String> = (1..=MACHINES).rev().map(|number| format!("web-{number}")).collect();
    let mut joining: Vec<(String, Running)> = Vec::new();
    let (mut joined, mut repeated) = (BTreeSet::new(), 0);
    let mut kills = KILLS.into_iter().peekable();
    let mut gateway = Some(place.serve());
    until("all machines have joined", || {
        while joining.len() < AT_A_TIME
            && let Some(node) = waiting.pop()
        {
            let child = join(&place, &node, &code_file.to_string_lossy());
            joining.push((node, child));
        }
        // A kill while eight are at it, some of them amid their proofs; every other time they die with it, as in a
        // power cut. Then it starts again as if nothing had been.
        if kills.next_if(|at| joined.len() >= *at).is_some() {
            gateway.take().unwrap().kill();
            if kills.len().is_multiple_of(2) {
                for (_, child) in &mut joining {
                    child.0.kill().unwrap();
                }
            }
            gateway = Some(place.serve());
        }
        for (node, mut child) in std::mem::take(&mut joining) {
            match child.0.try_wait().unwrap() {
                None => joining.push((node, child)),
                Some(status) if status.success() => assert!(joined.insert(node), "joined twice"),
                Some(_) => {
                    repeated += 1;
                    waiting.push(node);
                }
            }
        }
        joined.len() == MACHINES
    });
    assert!(kills.peek().is_none(), "the gateway was not killed as often as it should");
    assert!(repeated > 0, "no machine was interrupted: the walk shows less than it should");
    check_all_are_members(&place, &text(&invite, "id"), &joined);
    drop(gateway);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true, "also with the gateway gone");
}

/// Moments of a join: the files that come, and the key that goes.
const MOMENTS: [&str; 12] = [
    "seal.key",
    "node.key",
    "pending.key",
    "known.json",
    "admission.json",
    "svids/1",
    "svid.pem",
    "current",
    GOES,
    GOES,
    GOES,
    "node.json",
];

const GOES: &str = "pending.key goes";

#[test]
fn a_machine_killed_amid_its_join_finishes_it_later() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", &MOMENTS.len().to_string()]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let mut names = BTreeSet::new();
    for (number, moment) in MOMENTS.into_iter().enumerate() {
        let node = format!("web-{number}");
        let mut child = join(&place, &node, &code_file.to_string_lossy());
        while !has_come(&place.scope(&node), moment) && matches!(child.0.try_wait(), Ok(None)) {
            std::hint::spin_loop();
        }
        child.kill();
        succeeded(&place.join(&node, &text(&invite, "code")));
        names.insert(node);
    }
    check_all_are_members(&place, &text(&invite, "id"), &names);
}

fn has_come(scope: &Path, moment: &str) -> bool {
    let is_key = || std::fs::read(scope.join("pending.key")).is_ok_and(|bytes| bytes.starts_with(b"-----BEGIN"));
    match moment {
        GOES => scope.join("current").exists() && !is_key(),
        file => scope.join(file).exists(),
    }
}

/// Each name is one member, each spent one use, and the ledger holds.
fn check_all_are_members(place: &Place, invite: &str, names: &BTreeSet<String>) {
    let nodes = place.facts(&["node", "list"]);
    let mut states: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in nodes.as_array().unwrap().iter().filter(|row| row["invite"] == invite) {
        assert!(row["alarm"].is_null(), "{row}");
        states.entry(text(row, "name")).or_default().push(text(row, "state"));
    }
    for name in names {
        assert_eq!(states.get(name), Some(&vec!["member".to_owned()]), "`{name}`");
    }
    let shown = place.facts(&["invite", "show", invite]);
    assert_eq!((states.len(), shown["spent"].as_u64()), (names.len(), Some(names.len() as u64)));
    assert_eq!(shown["joined"].as_array().map(Vec::len), Some(names.len()));
    let verdict = place.facts(&["audit", "--verify"]);
    assert_eq!((&verdict["ok"], &verdict["void"]), (&true.into(), &0.into()), "{verdict}");
}

fn join(place: &Place, node: &str, code_file: &str) -> Running {
    let mut command = place.node_command(node, &["join", "--name", node, "--invite-file", code_file]);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}
