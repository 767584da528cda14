//! Bad days: wrong clocks, full and failing disks, power cuts, copies, clones, floods, kills. Each has a clear end.

mod clones;
mod clocks;
mod kills;
mod disks;
mod files;
mod copies;
mod floods;
mod lives;
mod power_cuts;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use trials::faults::Clock;
use trials::place::{Place, Running, output, succeeded};

/// Starts the gateway with a log that can be read, under a clock if one is given, and waits until it listens.
pub fn serve(place: &Place, clock: Option<&Clock>) -> Running {
    let listen = place.address();
    let command = place.freehold_command(&["serve", "--json", "--listen", &listen]);
    let command =
        clock.map_or(command, |clock| clock.under(place.freehold_command(&["serve", "--json", "--listen", &listen])));
    listening(place, command)
}

fn listening(place: &Place, command: Command) -> Running {
    let (running, ready) = start(place, command);
    assert!(ready, "the gateway did not start: {}", log_of(place));
    running
}

/// Starts a gateway, and waits until it says that it is ready, or ends without a word.
fn start(place: &Place, mut command: Command) -> (Running, bool) {
    let log = File::options().append(true).create(true).open(place.path("gateway.log")).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Running(child), line.contains("\"ready\""))
}

pub fn log_of(place: &Place) -> String {
    std::fs::read_to_string(place.path("gateway.log")).unwrap_or_default()
}

/// A node's agent under a clock; what it says is kept for `Running::end`.
pub fn agent(place: &Place, node: &str, clock: &Clock) -> Running {
    let mut command = clock.under(place.node_command(node, &["run", "--every", "1s"]));
    Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The number of the SVID in use.
pub fn counter(place: &Place, node: &str) -> u64 {
    let target = std::fs::read_link(place.scope(node).join("current")).unwrap();
    target.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap()
}

/// A copy with modes and links as they are.
pub fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    succeeded(&output(command));
}
