//! `freehold check`: everything that is wrong with a fleet, at once.

use std::path::{Path, PathBuf};

use clap::Args;
use gateway::store::folder::GatewayFolder;
use ground::plain::plain;
use identity::principal::OrgName;
use manifest::fleet::Fleet;
use manifest::source::{Complaint, KnownOrg};
use operate::publish::fleet::FleetFolder;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold check                    ./fleet if there is one, else this folder
  freehold check infra/fleet
  freehold check --json | jq -r '.complaints[] | \"\\(.file):\\(.line) \\(.message)\"'

It changes nothing, and needs neither passphrase nor gateway. If orgs are in this home, the fleet must be of one of them;
with --org, of that one.
Exit code 0 if the fleet could be published, with or without warnings; else 1.")]
pub struct Check {
    /// The fleet's folder
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Told<'t> {
    ok: bool,
    errors: usize,
    warnings: usize,
    complaints: &'t [Complaint],
}

impl Check {
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let doing = "could not check the fleet";
        let folder = FleetFolder::find(self.dir.as_deref()).during(doing)?;
        let named = common.check_named(doing)?;
        let read = folder.read(&known(common)).during(doing)?;
        let (fleet, complaints) = match read {
            Ok((fleet, _)) if named.is_some_and(|named| *named != fleet.org.name) => {
                return Err(other_org(doing, &fleet));
            }
            Ok((fleet, warnings)) => (Some(fleet), warnings),
            Err(complaints) => (None, complaints),
        };
        let errors = complaints.iter().filter(|complaint| complaint.is_error()).count();
        let warnings = complaints.len() - errors;
        show(common.json, &Told { ok: fleet.is_some(), errors, warnings, complaints: &complaints }, || {
            let summary = fleet.as_ref().map(|fleet| summary(fleet, warnings));
            complaints
                .iter()
                .map(ToString::to_string)
                .chain(summary)
                .collect::<Vec<_>>()
                .join("\n")
                .trim_end()
                .to_owned()
        });
        match fleet {
            Some(_) => Ok(()),
            None => Err(not_well(&complaints)),
        }
    }
}

/// The fleet in this folder, for commands that go on from it. What is wrong with it is told where errors go.
pub fn read_fleet(common: &Common, dir: Option<&Path>, doing: &str) -> Result<(FleetFolder, Fleet), Failure> {
    let folder = FleetFolder::find(dir).during(doing)?;
    let named = common.check_named(doing)?;
    match folder.read(&known(common)).during(doing)? {
        Ok((fleet, _)) if named.is_some_and(|named| *named != fleet.org.name) => Err(other_org(doing, &fleet)),
        Ok((fleet, _)) => Ok((folder, fleet)),
        Err(complaints) => {
            for complaint in &complaints {
                eprintln!("{}", plain(&complaint.to_string()));
            }
            Err(not_well(&complaints))
        }
    }
}

/// The orgs of this home, or the one that was named.
pub fn known(common: &Common) -> Vec<KnownOrg> {
    let home = common.home();
    let id = |org: &OrgName| {
        let operator = common.folder(org).known().ok().map(|known| known.org());
        operator.or_else(|| GatewayFolder::at(&home, org).about().ok().map(|about| about.org_id))
    };
    common.chosen().into_iter().filter_map(|name| Some(KnownOrg { id: id(&name)?, name })).collect()
}

/// Nothing of the org that was named is known here, but its name.
fn other_org(doing: &str, fleet: &Fleet) -> Failure {
    Failure::failed(doing, format!("the fleet is that of another org: `{}`", fleet.org.name))
        .hint("name that one with --org, or the folder of the right fleet")
}

fn not_well(complaints: &[Complaint]) -> Failure {
    let errors = complaints.iter().filter(|complaint| complaint.is_error()).count();
    let why = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
    Failure::failed("the fleet cannot be published as it is", why).hint("each one above says what to do about it")
}

fn summary(fleet: &Fleet, warnings: usize) -> String {
    let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let parts = [
        count(fleet.nodes.len(), "node", "nodes"),
        count(fleet.classes.len(), "class", "classes"),
        count(fleet.services.len(), "service", "services"),
        count(fleet.users.len(), "user", "users"),
    ];
    let well =
        if warnings == 0 { "is well".to_owned() } else { format!("has {}", count(warnings, "warning", "warnings")) };
    format!("the fleet of `{}` {well}: {}", fleet.org.name, parts.join(", "))
}
