//! Where a node's scopes lie, and which one is meant.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gateway::store::folder::GatewayFolder;
use identity::principal::OrgName;
use member::store::scope::Scope;
use terminal::failure::Failure;

use crate::program::Program;

const SYSTEM_ROOT: &str = "/var/lib/freehold";

/// Options of every command, before or after its words.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct ScopeOptions {
    /// Folder of the node's scopes [default: /var/lib/freehold for root, else ~/.local/state/freehold]
    #[arg(long, global = true, value_name = "DIR", env = "FREEHOLD_ROOT")]
    pub root: Option<PathBuf>,
    /// Which org, if this machine is in several
    #[arg(long, global = true, value_name = "ORG", env = "FREEHOLD_ORG")]
    pub org: Option<OrgName>,
    /// Which scope, by the name of its folder: the org's own, unless it was joined --as another
    #[arg(long = "as", global = true, value_name = "SCOPE")]
    pub scope: Option<OrgName>,
    /// Show tables whole, also what does not fit on the terminal
    #[arg(long, global = true)]
    pub wide: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The scope of the node inside a gateway, which lies under no root.
    #[arg(skip)]
    inside: Option<Scope>,
}

impl ScopeOptions {
    /// For the node inside the gateway of the machine on which the org was founded.
    pub const fn inside(scope: Scope, json: bool) -> Self {
        Self { root: None, org: None, scope: None, wide: false, json, inside: Some(scope) }
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
        format!("start it: {}", self.agent(scope))
    }

    /// What runs its agent, with the words that name the scope, if it takes some.
    pub fn agent(&self, scope: &Scope) -> String {
        let program = self.program(scope);
        match program {
            Program::Node | Program::NodeAsGateway => format!("{}{}", program.agent(), self.naming(scope)),
            Program::Gateway => program.agent().to_owned(),
        }
    }

    /// The words that name a scope: what was said, or its name if there are several.
    fn naming(&self, scope: &Scope) -> String {
        let is_named = self.wanted().is_some() || Scope::all(&self.root()).len() > 1;
        self.words(is_named.then(|| name_of(scope)).as_deref())
    }

    fn words(&self, name: Option<&str>) -> String {
        let which = if self.scope.is_some() { "--as" } else { "--org" };
        let name = name.map(|name| format!(" {which} {name}")).unwrap_or_default();
        let root = self.root.as_ref().map(|root| format!(" --root {}", root.display())).unwrap_or_default();
        format!("{name}{root}")
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
        let named = self.words(self.wanted().map(OrgName::as_str));
        if let Some(closed) = Closed::below(root, self.wanted(), is_denied) {
            return Failure::failed(doing, closed.told()).hint(closed.cure(&named));
        }
        if let Some(wanted) = self.wanted() {
            let joined: Vec<String> = Scope::all(root).iter().map(name_of).collect();
            if let [first, ..] = joined.as_slice() {
                let why = format!(
                    "no org `{wanted}` was joined under `{}`; joined were {}",
                    root.display(),
                    joined.join(", ")
                );
                let which = if self.scope.is_some() { "--as" } else { "--org" };
                return Failure::failed(doing, why).hint(format!("say which: {which} {first}"));
            }
        }
        let others = [PathBuf::from(SYSTEM_ROOT), user_root()];
        let others = || others.iter().filter(|other| *other != root);
        if let Some(other) = others().find(|other| !Scope::all(other).is_empty()) {
            return nowhere(doing, root).hint(format!("there is one elsewhere: add --root {}", other.display()));
        }
        match others().find_map(|other| Closed::below(other, self.wanted(), is_denied)) {
            Some(closed) if self.root.is_none() => {
                let why = format!("no org was joined under `{}`, and {}", root.display(), closed.told());
                Failure::failed(doing, why).hint(closed.cure(&named))
            }
            Some(_) | None => nowhere(doing, root).hint("join first: freehold-node join"),
        }
    }
}

/// Something under a root that is there, and is not ours to look into.
#[derive(Debug, PartialEq, Eq)]
struct Closed {
    folder: PathBuf,
    /// Not known if it lies in another such folder.
    owner: Option<u32>,
}

impl Closed {
    /// The root itself, or a scope in it that could be the one that is wanted.
    fn below(root: &Path, wanted: Option<&OrgName>, is_denied: impl Fn(&Path) -> bool) -> Option<Self> {
        let could_be = |name: &str| wanted.map_or_else(|| name.parse::<OrgName>().is_ok(), |it| it.as_str() == name);
        let folder = if is_denied(root) {
            root.to_owned()
        } else {
            let entries = std::fs::read_dir(root).ok()?.flatten();
            let fitting = entries.filter(|entry| entry.file_name().to_str().is_some_and(could_be));
            fitting.map(|entry| entry.path()).find(|folder| is_denied(folder))?
        };
        let owner = std::fs::metadata(&folder).ok().map(|about| about.uid());
        Some(Self { folder, owner })
    }

    fn told(&self) -> String {
        let who = match self.owner {
            Some(0) => "for root alone to read".to_owned(),
            Some(owner) => format!("for its owner alone to read, the user with the number {owner}"),
            None => "not for this user to read".to_owned(),
        };
        format!("`{}` is {who}", self.folder.display())
    }

    fn cure(&self, naming: &str) -> String {
        match self.owner {
            Some(0) | None => format!("run the same as root: sudo freehold-node{naming} …"),
            Some(owner) => format!("run the same as that user: sudo -u '#{owner}' freehold-node{naming} …"),
        }
    }
}

/// May we not list it, or not reach what is in it?
fn is_denied(folder: &Path) -> bool {
    let denied = |why: std::io::Error| why.kind() == ErrorKind::PermissionDenied;
    std::fs::read_dir(folder).is_err_and(denied) || std::fs::metadata(folder.join(".")).is_err_and(denied)
}

/// A scope goes by the name of its folder: the org's, unless it was joined under another.
pub(crate) fn name_of(scope: &Scope) -> String {
    scope.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// For a scope in which there is no member yet, or none any more.
pub(crate) fn unjoined(doing: &str, program: Program) -> Failure {
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

pub(crate) fn default_root() -> PathBuf {
    if rustix::process::geteuid().is_root() { PathBuf::from(SYSTEM_ROOT) } else { user_root() }
}

fn user_root() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|state| !state.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    state.unwrap_or_else(|| home().join(".local/state")).join("freehold")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two scopes under one root.
    fn two() -> (tempfile::TempDir, ScopeOptions) {
        let root = tempfile::tempdir().unwrap();
        for org in ["harbor", "quay"] {
            std::fs::create_dir(root.path().join(org)).unwrap();
            std::fs::write(root.path().join(org).join("node.key"), "").unwrap();
        }
        let common = ScopeOptions {
            root: Some(root.path().to_owned()),
            org: None,
            scope: None,
            wide: false,
            json: false,
            inside: None,
        };
        (root, common)
    }

    #[test]
    fn an_agent_is_started_with_the_name_of_its_scope_where_there_are_several() {
        let (root, common) = two();
        let harbor = Scope { folder: root.path().join("harbor") };
        let at = root.path().display();
        assert_eq!(common.start(&harbor), format!("start it: freehold-node run --org harbor --root {at}"));
        let named = ScopeOptions { scope: Some("harbor".parse().unwrap()), ..common.clone() };
        assert_eq!(named.agent(&harbor), format!("freehold-node run --as harbor --root {at}"));
        std::fs::remove_dir_all(root.path().join("quay")).unwrap();
        assert_eq!(common.agent(&harbor), format!("freehold-node run --root {at}"));
    }

    #[test]
    fn a_name_that_was_not_joined_is_told_beside_those_that_were() {
        let (_root, common) = two();
        let wanted = ScopeOptions { org: Some("harbour".parse().unwrap()), ..common };
        let told = format!("{:?}", wanted.scope("could not look").unwrap_err());
        assert!(told.contains("no org `harbour` was joined") && told.contains("joined were harbor, quay"), "{told}");
        assert!(told.contains("say which: --org harbor"), "{told}");
    }

    #[test]
    fn what_is_closed_is_told_with_who_may_read_it() {
        let closed = |owner| Closed { folder: PathBuf::from("/var/lib/freehold"), owner };
        let cases = [
            (Some(0), "for root alone to read", "run the same as root: sudo freehold-node --org harbor …"),
            (Some(1000), "the user with the number 1000", "sudo -u '#1000' freehold-node --org harbor …"),
            (None, "not for this user to read", "sudo freehold-node --org harbor …"),
        ];
        for (owner, told, cure) in cases {
            assert!(closed(owner).told().contains(told), "{owner:?}");
            assert!(closed(owner).cure(" --org harbor").contains(cure), "{owner:?}");
        }
    }

    #[test]
    fn what_is_there_and_closed_is_not_told_as_if_nothing_was_joined() {
        let (root, _common) = two();
        let (harbor, quay) = ("harbor".parse().unwrap(), "quay".parse().unwrap());
        let below = |wanted, closed: &Path| {
            let found = Closed::below(root.path(), wanted, |folder| folder == closed);
            found.map(|found| found.folder)
        };
        let folder = root.path().join("harbor");
        assert_eq!(below(None, &folder), Some(folder.clone()));
        assert_eq!(below(Some(&harbor), &folder), Some(folder.clone()));
        assert_eq!(below(Some(&quay), &folder), None);
        assert_eq!(below(Some(&quay), root.path()), Some(root.path().to_owned()));
        assert_eq!(Closed::below(&root.path().join("nothing"), None, is_denied), None);
        assert!(!is_denied(&folder.join("node.key")), "a file is no closed folder");
    }
}
