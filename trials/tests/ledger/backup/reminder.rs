//! One line reminds, until there is a backup.

use std::process::{Command, Stdio};

use trials::place::{Place, binary, output, stderr, stdout, succeeded};

use super::back_up;

const NOTE: &str = "there is no backup of `harbor` yet";

#[test]
fn founding_and_serving_remind_until_a_backup_was_made() {
    let place = Place::new();
    let address = place.address();
    let founded = place.freehold(&["found", "harbor", "--unprotected", "--advertise", &address]);
    assert!(stderr(&founded).contains(NOTE), "{}", stderr(&founded));
    let second = Place::new().freehold(&["found", "harbor", "--unprotected", "--json"]);
    assert!(!stderr(&second).contains(NOTE), "{}", stderr(&second));
    // A gateway that cannot listen says it too, and ends by itself.
    let taken = std::net::TcpListener::bind(&address).unwrap();
    let serve = || stderr(&place.freehold(&["serve", "--listen", &address]));
    assert!(serve().contains(NOTE));
    back_up(&place, "backup");
    assert!(!serve().contains(NOTE));
    drop(taken);
}

#[test]
fn at_a_terminal_the_commands_of_every_day_remind_and_in_a_script_none_does() {
    let place = Place::founded(&[]);
    assert!(!stderr(&place.freehold(&["node", "list"])).contains(NOTE));
    assert!(at_terminal(&place, "node list").contains(NOTE));
    assert!(!at_terminal(&place, "node list").contains(NOTE), "once a day");
    let noted = place.org().join("operator/.reminded");
    std::fs::write(&noted, "2020-01-01T00:00:00Z\n").unwrap();
    assert!(at_terminal(&place, "node list").contains(NOTE), "a day is over");
    std::fs::write(&noted, "when?").unwrap();
    assert!(at_terminal(&place, "node list").contains(NOTE), "what cannot be read keeps nobody silent");
    std::fs::remove_file(&noted).unwrap();
    assert!(!at_terminal(&place, "node list --json").contains(NOTE));
    assert!(!at_terminal(&place, "audit").contains(NOTE));
    back_up(&place, "backup");
    assert!(!at_terminal(&place, "node list").contains(NOTE));
}

/// What a person at a terminal sees.
fn at_terminal(place: &Place, words: &str) -> String {
    let line = format!("{} {words} --home {}", binary("freehold").display(), place.home().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    let output = output(command);
    succeeded(&output);
    stdout(&output)
}
