//! `freehold-node doctor`: everything that can be wrong with this machine's membership, and the cure.

use std::path::Path;

use clap::Args;
use identity::principal::{Name, OrgName};
use member::store::scope::Scope;
use terminal::failure::Failure;
use terminal::finding::{Finding, Mark, Patient, tell};

use crate::commands::roots::{ScopeOptions, name_of};
use crate::doctor::member::{examine, is_revoked};
use crate::doctor::{examination, service};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node doctor
  freehold-node doctor wiki         why can't I reach the service `wiki`?
  freehold-node doctor --json | jq '.orgs[].findings[] | select(.mark != \"ok\")'

It changes nothing. The service is called once, without a byte, for somebody here who may. Exit code 0 if nothing is wrong,
else 1; what is marked `soon` is not wrong yet.")]
pub struct Doctor {
    /// Look at what it takes to reach this service from here
    #[arg(value_name = "SERVICE")]
    service: Option<Name>,
}

impl Doctor {
    pub async fn run(&self, common: &ScopeOptions) -> Result<(), Failure> {
        let root = common.root();
        let scopes = match (common.is_inside(), common.wanted()) {
            (Some(scope), _) => Ok(vec![scope.clone()]),
            (None, Some(org)) => match Scope::at(&root, org) {
                scope if is_missing(&scope) => {
                    let finding = not_joined(org, &root);
                    return tell(common.json, &[Patient { name: org.to_string(), findings: vec![finding] }]);
                }
                scope => Ok(vec![scope]),
            },
            (None, None) => all_below(&root),
        };
        let mut patients = Vec::new();
        for scope in scopes.as_deref().unwrap_or_default() {
            let mut patient = examine(scope, common.program(scope), name_of(scope)).await;
            if let Some(service) = &self.service {
                // What has nothing to do with it, and is fine, is left out.
                patient.findings.retain(|finding| concerns(finding) || is_amiss(finding));
                if !is_revoked(scope) {
                    patient.findings.extend(service::look(scope, service, common.program(scope)).await);
                }
            }
            patients.push(patient);
        }
        if patients.is_empty() {
            let nothing = format!("no org was joined under `{}`", root.display());
            let nothing = Finding::wrong("membership", nothing, NOWHERE);
            let cure = "run this as the user of the agent, or as root; or say where: --root DIR";
            patients.push(examination::empty(&root, scopes.map(drop), cure, nothing));
        }
        tell(common.json, &patients)
    }
}

fn is_missing(scope: &Scope) -> bool {
    std::fs::metadata(&scope.folder).is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound)
}

fn not_joined(wanted: &OrgName, root: &Path) -> Finding {
    let found = format!("no org `{wanted}` was joined under `{}`", root.display());
    let joined: Vec<_> = all_below(root).unwrap_or_default().iter().map(name_of).collect();
    if joined.is_empty() {
        return Finding::wrong("membership", format!("{found}, nor another"), NOWHERE);
    }
    let cure = format!("say which: --org {}", joined.join(", or --org "));
    Finding::wrong("membership", format!("{found}; joined were {}", joined.join(", ")), cure)
}

const NOWHERE: &str = "join: freehold-node join; or say where it was: --root DIR";

/// Does it bear on whether a service can be reached?
fn concerns(finding: &Finding) -> bool {
    ["clock", "membership", "svid", "head", "agent", "manifest", "gateway"].contains(&finding.subject)
}

/// The tunnel is told with what the service takes.
fn is_amiss(finding: &Finding) -> bool {
    finding.mark == Mark::Wrong && finding.subject != "tunnel"
}

/// Every scope, also one whose key is gone.
fn all_below(root: &Path) -> std::io::Result<Vec<Scope>> {
    let mut scopes = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.parse::<OrgName>().is_ok()) && entry.path().is_dir() {
            scopes.push(Scope { folder: entry.path() });
        }
    }
    scopes.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(scopes)
}
