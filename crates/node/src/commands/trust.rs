//! `freehold-node trust`: which roots this machine goes by, and where other programs read them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ground::clock;
use identity::bundle::{Domain, InDomain};
use identity::head::TrustState;
use identity::id::Fingerprint;
use identity::trust;
use member::apply::trust::Trusting;
use member::ask::keep::{Both, follow, trust_told};
use member::store::scope::trust::TrustPaths;
use member::store::scope::{NodeFile, Scope};
use org::report::{DomainTold, SvidTold};
use serde::Serialize;
use terminal::failure::{During, Failure};
use terminal::show::show;
use wire::known::Known;

use crate::commands::join::wanted_paths;
use crate::commands::roots::{ScopeOptions, unjoined};
use crate::program::Program;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node trust                    every version that the head names, and what this machine makes of it
  freehold-node trust --json | jq .identity.told.versions
  freehold-node trust paths --endpoint /etc/ssl/harbor-gateways.pem --identity /etc/ssl/harbor-members.pem
  freehold-node trust paths --reset

What went back is tried again with the next turn of the operators, or at once: freehold-node sync --now")]
pub struct Trust {
    #[command(subcommand)]
    command: Option<TrustCommand>,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Say where other programs read the roots: two domains, two files
    Paths(Paths),
}

#[derive(Debug, Args)]
struct Paths {
    /// The file for the roots of gateways
    #[arg(long, value_name = "FILE")]
    endpoint: Option<PathBuf>,
    /// The file for the roots of members
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Back to the files in the scope's own folder
    #[arg(long, conflicts_with_all = ["endpoint", "identity"])]
    reset: bool,
}

/// A domain, as the head has it and as this machine does.
#[derive(Debug, Serialize)]
struct Shown {
    file: PathBuf,
    versions: Vec<VersionShown>,
    /// Absent until this machine knows which versions it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<DomainTold>,
    /// What is waited for, while something is on trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<String>,
}

#[derive(Debug, Serialize)]
struct VersionShown {
    version: u64,
    state: TrustState,
    /// `in force`, `on trial`, `not taken`; `retired` is never in force.
    here: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roots: Vec<Fingerprint>,
}

#[derive(Debug, Serialize)]
struct All {
    head: u64,
    endpoint: Shown,
    identity: Shown,
    svids: Vec<SvidTold>,
}

impl Trust {
    pub fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        match self.command {
            None => look(common),
            Some(TrustCommand::Paths(paths)) => paths.run(common),
        }
    }
}

fn member(scope: &Scope, doing: &str, program: Program) -> Result<(NodeFile, Known), Failure> {
    match (scope.node().during(doing)?, scope.known().during(doing)?) {
        (Some(node), Some(known)) => Ok((node, known)),
        _ => Err(unjoined(doing, program)),
    }
}

fn look(common: &ScopeOptions) -> Result<(), Failure> {
    let doing = "could not tell which roots are trusted";
    let scope = common.scope(doing)?;
    let (node, known) = member(&scope, doing, common.program(&scope))?;
    let both = Both::open(&scope, &known, known.now(clock::now())).during(doing)?;
    let paths = node.trust.clone().unwrap_or_default();
    let told = trust_told(&scope, &node, &known).during(doing)?;
    let all = All {
        head: known.head.head.version,
        endpoint: shown(&scope, &paths, &both.endpoint, &known),
        identity: shown(&scope, &paths, &both.identity, &known),
        svids: told.map(|told| told.svids).unwrap_or_default(),
    };
    show(common.json, &all, || in_words(&all));
    Ok(())
}

fn shown<D: InDomain>(scope: &Scope, paths: &TrustPaths, trusting: &Trusting<D>, known: &Known) -> Shown {
    let head = &known.head.head;
    let (in_force, tried) = (trusting.in_force(head), trusting.tried());
    let versions = trust::of(&head.trust, D::DOMAIN).into_iter().map(|line| {
        let bundle = in_force.iter().chain(&tried).find(|bundle| bundle.digest() == line.bundle);
        let here = match bundle {
            Some(bundle) if tried.iter().any(|tried| tried.digest() == bundle.digest()) => "on trial",
            Some(_) => "in force",
            None if line.state.is_trusted() => "not taken",
            None => "retired",
        };
        let roots = bundle.map(|bundle| bundle.fingerprints().collect()).unwrap_or_default();
        VersionShown { version: line.version, state: line.state, here, roots }
    });
    Shown {
        file: scope.roots_path(paths, D::DOMAIN),
        versions: versions.collect(),
        told: trusting.told(head),
        waits_for: trusting.waits_for(),
    }
}

fn in_words(all: &All) -> String {
    let mut lines = vec![format!("by head {}", all.head)];
    for (domain, shown) in [(Domain::Endpoint, &all.endpoint), (Domain::Identity, &all.identity)] {
        lines.push(format!("\n{:<9} {:<8} {:<10} root", domain.word(), "state", "here"));
        for line in &shown.versions {
            let roots: Vec<_> = line.roots.iter().map(|root| short(*root)).collect();
            let roots = roots.join(", ");
            lines.push(format!("  {:<7} {:<8} {:<10} {roots}", line.version, line.state.word(), line.here));
        }
        lines.push(format!("  file    {}", shown.file.display()));
        lines.extend(shown.waits_for.iter().map(|wait| format!("  waits   for {wait}")));
        match &shown.told {
            None => lines.push("  which versions the file has is learned at the next check-in".to_owned()),
            Some(told) => {
                lines.extend(told.updated_at.map(|at| format!("  since   {at}")));
                lines.extend(told.refused.iter().map(|it| format!("  went back at {}: {}", it.at, it.why)));
            }
        }
    }
    for svid in &all.svids {
        let roots: Vec<_> = svid.roots.iter().map(|root| short(*root)).collect();
        lines.push(format!("\nsvid      {} until {}\n  leads to {}", svid.principal, svid.not_after, roots.join(", ")));
    }
    lines.join("\n")
}

fn short(fingerprint: Fingerprint) -> String {
    fingerprint.to_string().chars().take(16).collect()
}

impl Paths {
    fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not say where the roots are read";
        let scope = common.scope(doing)?;
        let (mut node, known) = member(&scope, doing, common.program(&scope))?;
        let before = node.trust.clone().unwrap_or_default();
        let wanted = wanted_paths(self.endpoint.as_deref(), self.identity.as_deref(), doing)?;
        let paths = match wanted {
            Some(wanted) => TrustPaths {
                endpoint: wanted.endpoint.or_else(|| before.endpoint.clone()),
                identity: wanted.identity.or_else(|| before.identity.clone()),
            },
            None if self.reset => TrustPaths::default(),
            None => before.clone(),
        };
        scope.check_trust_paths(&paths).map_err(|why| {
            Failure::refused(doing, why.to_string())
                .hint("give each domain a plain file of its own, outside the scope's folder")
        })?;
        node.trust = (paths != TrustPaths::default()).then(|| paths.clone());
        scope.save_node(&node).during(doing)?;
        follow(&scope, &known).during(doing)?;
        for domain in [Domain::Endpoint, Domain::Identity] {
            let (old, new) = (scope.roots_path(&before, domain), scope.roots_path(&paths, domain));
            // Roots that are no longer kept up to date are worse than none.
            if old != new && new.exists() {
                let _ = std::fs::remove_file(old);
            }
        }
        let told = Told {
            endpoint: scope.roots_path(&paths, Domain::Endpoint),
            identity: scope.roots_path(&paths, Domain::Identity),
        };
        show(common.json, &told, || {
            format!("endpoint  {}\nidentity  {}", told.endpoint.display(), told.identity.display())
        });
        Ok(())
    }
}

#[derive(Serialize)]
struct Told {
    endpoint: PathBuf,
    identity: PathBuf,
}
