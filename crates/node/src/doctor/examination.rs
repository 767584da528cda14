//! What was found of one org so far, in the order in which it is told.

use std::io;
use std::path::Path;

use ground::clock;
use identity::time::Timestamp;
use terminal::finding::{Finding, Patient};
use wire::connect::{CallError, GatewayAddress};

use super::reach::{self, Seen};
use super::standing::Vouched;
use super::{files, standing};

#[derive(Debug)]
pub struct Examination {
    pub now: Timestamp,
    findings: Vec<Finding>,
    /// What time it is at the first gateway that answered.
    there: Option<Timestamp>,
}

impl Examination {
    /// The program, and the folder that it works on.
    pub fn begin(version: Finding, folder: &Path) -> Self {
        Self { now: clock::now(), findings: vec![version, files::look(folder), files::room(folder)], there: None }
    }

    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    /// What became of a call to a gateway.
    pub fn called(&mut self, gateway: &GatewayAddress, outcome: &Result<Seen, CallError>) {
        self.push(reach::finding(gateway, outcome));
        if let Ok(seen) = outcome {
            let now = self.now;
            self.extend(seen.certificate_until.map(|until| standing::endpoint(now, until)));
            self.there = self.there.or(seen.date);
        }
    }

    /// The clock is told early, and known when everything else is.
    pub fn end(mut self, name: String, newest: Option<&Vouched>) -> Patient {
        self.findings.insert(1, standing::clock(self.now, newest, self.there));
        Patient { name, findings: self.findings }
    }
}

/// Where nothing was found to examine: the place cannot be read, or there is `nothing`.
pub fn empty(place: &Path, read: io::Result<()>, cure: &str, nothing: Finding) -> Patient {
    let finding = match read {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Finding::wrong("files", format!("cannot read `{}`: {why}", place.display()), cure)
        }
        Ok(()) | Err(_) => nothing,
    };
    Patient { name: place.display().to_string(), findings: vec![finding] }
}
