//! Where a node's scopes lie, and which one is meant.

use std::path::{Path, PathBuf};

use clap::Args;
use identity::principal::OrgName;

use crate::program::Program;
use crate::report::Failure;
use crate::store::gateway::GatewayFolder;
use crate::store::scope::Scope;

const SYSTEM_ROOT: &str = "/var/lib/freehold";

/// Options of every command, before or after its words.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Folder of the node's scopes [default: /var/lib/freehold for root, else ~/.local/state/freehold]
    #[arg(long, global = true, value_name = "DIR", env = "FREEHOLD_ROOT")]
    pub root: Option<PathBuf>,
    /// Which org, if this machine is in several
    #[arg(long, global = true, value_name = "ORG", env = "FREEHOLD_ORG")]
    pub org: Option<OrgName>,
    /// Which scope, by the name of its folder: the org's own, unless it was joined --as another
    #[arg(long = "as", global = true, value_name = "SCOPE")]
    pub scope: Option<OrgName>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The scope of the node inside a gateway, which lies under no root.
    #[arg(skip)]
    inside: Option<Scope>,
}

impl Common {
    /// For the node inside the gateway of the machine on which the org was founded.
    pub const fn inside(scope: Scope, json: bool) -> Self {
        Self { root: None, org: None, scope: None, json, inside: Some(scope) }
    }

    /// The node inside a gateway, if it is the one that is meant.
    pub const fn is_inside(&self) -> Option<&Scope> {
        self.inside.as_ref()
    }

    /// What is typed about the node that is meant.
    pub fn program(&self, scope: &Scope) -> Program {
        if self.inside.is_some() {
            Program::Gateway
        } else if GatewayFolder::of_member(scope).was_granted() {
            Program::NodeAsGateway
        } else {
            Program::Node
        }
    }

    /// How its agent is started.
    pub fn start(&self, scope: &Scope) -> String {
        format!("start it: {}", self.program(scope).agent())
    }

    pub fn root(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(default_root)
    }

    /// The name of the scope's folder, if one was given.
    pub fn wanted(&self) -> Option<&OrgName> {
        self.scope.as_ref().or(self.org.as_ref())
    }

    /// The one scope that is meant. Looks in the other root too, to say which command to run.
    pub fn scope(&self, doing: &str) -> Result<Scope, Failure> {
        if let Some(scope) = &self.inside {
            return Ok(scope.clone());
        }
        let root = self.root();
        let fits = |scope: &Scope| {
            self.wanted().is_none_or(|org| scope.folder.file_name().is_some_and(|name| name == org.as_str()))
        };
        let mut scopes: Vec<Scope> = Scope::all(&root).into_iter().filter(fits).collect();
        match scopes.len() {
            1 => scopes.pop().ok_or_else(|| nowhere(doing, &root)),
            0 => Err(self.look_elsewhere(doing, &root)),
            _ => {
                let names: Vec<_> = scopes.iter().filter_map(|scope| scope.folder.file_name()?.to_str()).collect();
                let why = format!("this machine is in several orgs: {}", names.join(", "));
                Err(Failure::usage(doing, why).hint("say which: --org NAME"))
            }
        }
    }

    fn look_elsewhere(&self, doing: &str, root: &Path) -> Failure {
        let others = [PathBuf::from(SYSTEM_ROOT), user_root()];
        let found = others.iter().find(|other| *other != root && (!Scope::all(other).is_empty() || is_closed(other)));
        match found {
            Some(other) if self.root.is_none() && is_closed(other) => nowhere(doing, root)
                .hint(format!("`{}` is for root to read: sudo freehold-node status", other.display())),
            Some(other) => nowhere(doing, root).hint(format!("there is one elsewhere: add --root {}", other.display())),
            None => nowhere(doing, root).hint("join first: freehold-node join"),
        }
    }
}

/// A scope goes by the name of its folder: the org's, unless it was joined under another.
pub fn name_of(scope: &Scope) -> String {
    scope.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// For a scope in which there is no member yet, or none any more.
pub fn unjoined(doing: &str, program: Program) -> Failure {
    match program {
        Program::Node | Program::NodeAsGateway => {
            Failure::failed(doing, "no join has finished here").hint("run freehold-node join again")
        }
        Program::Gateway => {
            Failure::failed(doing, "what the founding wrote about this node is gone").hint(program.anew())
        }
    }
}

fn nowhere(doing: &str, root: &Path) -> Failure {
    Failure::failed(doing, format!("no org was joined under `{}`", root.display()))
}

/// There, but not ours to look into.
fn is_closed(root: &Path) -> bool {
    matches!(std::fs::read_dir(root), Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied)
}

pub fn default_root() -> PathBuf {
    if rustix::process::geteuid().is_root() { PathBuf::from(SYSTEM_ROOT) } else { user_root() }
}

fn user_root() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|state| !state.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    state.unwrap_or_else(|| home().join(".local/state")).join("freehold")
}
