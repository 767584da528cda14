//! `freehold-node service`: lets systemd keep the agent of a scope running.

use std::path::Path;

use clap::{Args, Subcommand};
use member::agent::status::NodeStatus;
use member::store::scope::Scope;
use serde::Serialize;
use terminal::failure::{During, Failure};
use terminal::show::show;

use crate::commands::roots::{ScopeOptions, name_of};
use crate::service::{self, ServiceError, Standing, Unit};

#[derive(Debug, Subcommand)]
pub enum Service {
    /// Write the unit, start the agent, and let it start with the machine
    #[command(after_help = "Examples:
  freehold-node service install
  freehold-node service install --as harbor     of one org, if this machine is in several
  freehold-node service install --dry-run       print the unit and change nothing

Running it again is safe: an agent that runs by the same unit is not disturbed.
Where systemd does not run, let whatever starts your programs run `freehold-node run`.")]
    Install(Install),
    /// Stop the agent and take its unit away; the machine stays in its org
    #[command(after_help = "Examples:
  freehold-node service remove
  freehold-node service remove --as harbor")]
    Remove,
    /// Tell whether there is a service, and whether it runs
    #[command(after_help = "Examples:
  freehold-node service status
  freehold-node service status --json | jq .running")]
    Status,
}

#[derive(Debug, Args)]
pub struct Install {
    /// Print the unit and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Installed {
    #[serde(flatten)]
    standing: Standing,
    changed: bool,
}

#[derive(Serialize)]
struct Printed<'a> {
    unit: String,
    text: &'a str,
}

#[derive(Serialize)]
struct Removed {
    unit: String,
    removed: bool,
}

impl Service {
    pub fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        match self {
            Self::Install(install) => install.run(common),
            Self::Remove => remove(common),
            Self::Status => status(common),
        }
    }
}

impl Install {
    fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not install the service";
        let scope = common.scope(doing)?;
        let name = name_of(&scope);
        let joined = scope.node().during(doing)?.is_some_and(|node| node.joined);
        if !joined {
            return Err(Failure::failed(doing, format!("`{name}` was not joined to its end"))
                .hint("finish it: freehold-node join"));
        }
        let unit = unit_of(&scope).map_err(|why| failure(doing, &why, &name))?;
        if self.dry_run {
            let printed = Printed { unit: service::name(&name), text: unit.text() };
            show(common.json, &printed, || unit.text().to_owned());
            return Ok(());
        }
        let by_hand = NodeStatus::from_agent(&scope).is_some() && !standing(doing, &name)?.running;
        let changed = unit.install().map_err(|why| failure(doing, &why, &name))?;
        let installed = Installed { standing: standing(doing, &name)?, changed };
        show(common.json, &installed, || {
            let mut told = format!("`{}` keeps the agent of `{name}` running", installed.standing.unit);
            if by_hand {
                told.push_str(
                    "\nan agent that was started by hand still runs: stop it, and the service takes its place",
                );
            }
            told
        });
        Ok(())
    }
}

/// What lies where now, without links: a unit outlives the shell that made it.
fn unit_of(scope: &Scope) -> Result<Unit, ServiceError> {
    let whole = |path: &Path| path.canonicalize().map_err(|_| ServiceError::Path(path.to_owned()));
    let program = std::env::current_exe().map_err(|_| ServiceError::Path("freehold-node".into()))?;
    let root = whole(scope.folder.parent().unwrap_or(Path::new("/")))?;
    Unit::new(&program, &root, &name_of(scope))
}

fn remove(common: &ScopeOptions) -> Result<(), Failure> {
    let doing = "could not remove the service";
    let name = named(common, doing)?;
    let removed = service::remove(&name).map_err(|why| failure(doing, &why, &name))?;
    let told = Removed { unit: service::name(&name), removed };
    show(common.json, &told, || {
        if removed { format!("`{}` is stopped and removed", told.unit) } else { format!("there is no `{}`", told.unit) }
    });
    Ok(())
}

fn status(common: &ScopeOptions) -> Result<(), Failure> {
    let doing = "could not tell how the service stands";
    let name = named(common, doing)?;
    let standing = standing(doing, &name)?;
    show(common.json, &standing, || {
        let is = |so: bool, word: &str| if so { word.to_owned() } else { format!("not {word}") };
        let told = [
            is(standing.installed, "installed"),
            is(standing.enabled, "started with the machine"),
            is(standing.running, "running"),
        ];
        let hint = if standing.installed { "" } else { "\ninstall it: freehold-node service install" };
        format!("{}: {}{hint}", standing.unit, told.join(", "))
    });
    Ok(())
}

/// The scope by its name, also one that was left meanwhile.
fn named(common: &ScopeOptions, doing: &str) -> Result<String, Failure> {
    if let Some(name) = common.wanted() {
        return Ok(name.to_string());
    }
    match (common.scope(doing), service::scopes().as_slice()) {
        (Ok(scope), _) => Ok(name_of(&scope)),
        (Err(_), [only]) => Ok(only.clone()),
        (Err(why), _) => Err(why),
    }
}

fn standing(doing: &str, name: &str) -> Result<Standing, Failure> {
    service::standing(name).map_err(|why| failure(doing, &why, name))
}

fn failure(doing: &str, why: &ServiceError, scope: &str) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        ServiceError::NoSystemd => {
            failure.hint(format!("let whatever starts programs on this machine run: freehold-node run --as {scope}"))
        }
        ServiceError::NotRoot => failure.hint("run this as root"),
        ServiceError::Path(_) => failure.hint("move it to a path of plain characters"),
        ServiceError::NotRun { .. } | ServiceError::Systemctl { .. } => {
            failure.hint(format!("look at it: systemctl status {}", service::name(scope)))
        }
        ServiceError::File(_) => failure,
    }
}
