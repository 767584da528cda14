//! Attacks on the real programs. Each ends in its own refusal, and the ledger says what it said before.

mod enroll;
mod requests;
mod races;
mod renew;
mod tls;
mod stolen;
mod permissions;
mod ledger;
mod impostor;
mod rogue;
mod resources;
mod shown;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;
use trials::place::{Place, Running};

/// A founded org, its gateway, and the file that the gateway logs to.
pub struct Scene {
    pub place: Place,
    _gateway: Running,
}

impl Scene {
    pub fn new() -> Self {
        Self::of(Place::founded(&[]))
    }

    pub fn of(place: Place) -> Self {
        let listen = place.address();
        let mut command = place.freehold_command(&["serve", "--json", "--listen", &listen]);
        let log = File::create(place.path("gateway.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let gateway = Running(child);
        assert!(line.contains("\"ready\""), "the gateway did not start: {}", read(&place));
        Self { place, _gateway: gateway }
    }

    pub fn port(&self) -> u16 {
        self.place.port
    }

    pub fn log(&self) -> String {
        read(&self.place)
    }

    /// What the ledger says, line by line. Attempts that failed leave no trace here, nor do check-ins.
    pub fn truth(&self) -> Value {
        self.place.facts(&["audit"])
    }

    /// The whole ledger holds, as an auditor sees it.
    pub fn audit(&self) {
        trials::place::succeeded(&self.place.freehold(&["audit", "--verify"]));
    }
}

fn read(place: &Place) -> String {
    std::fs::read_to_string(place.path("gateway.log")).unwrap_or_default()
}
