//! What the tunnel's process gives up before it does anything: new privileges, core files, and the file system.
//!
//! It speaks with strangers. Whoever takes it over finds no file to read but those by which names are resolved, and none to
//! write. Done before any thread is made, since each thread is confined by itself.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// What name resolution reads. Whole folders, since files in them are replaced while it runs.
const READABLE: [&str; 9] = [
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
];
/// The newest that is asked for; older kernels give what they have.
const WANTED: ABI = ABI::V6;

/// What is in force, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    pub files: Files,
    /// So many files and sockets at once.
    pub open_files: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    Landlock { abi: u32, whole: bool },
    Nothing { why: &'static str },
}

impl std::fmt::Display for Confined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.files {
            Files::Landlock { abi, whole: true } => write!(f, "landlock ABI {abi}"),
            Files::Landlock { abi, whole: false } => write!(f, "landlock ABI {abi}, in part: the kernel is older"),
            Files::Nothing { why } => write!(f, "none: {why}"),
        }
    }
}

/// Only from the first thread, before there are others.
pub fn confine() -> io::Result<Confined> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut open = rustix::process::getrlimit(Resource::Nofile);
    open.current = open.maximum;
    rustix::process::setrlimit(Resource::Nofile, open)?;
    let status = close_files().map_err(io::Error::other)?;
    Ok(Confined { files: files(&status), open_files: rustix::process::getrlimit(Resource::Nofile).current })
}

fn close_files() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(READABLE, AccessFs::ReadFile | AccessFs::ReadDir))?
        .restrict_self()
}

fn files(status: &RestrictionStatus) -> Files {
    match (&status.ruleset, &status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => Files::Nothing { why: "landlock is not enabled" },
        (RulesetStatus::NotEnforced, _) => Files::Nothing { why: "kernel too old" },
        (enforced, LandlockStatus::Available { effective_abi, .. }) => {
            Files::Landlock { abi: *effective_abi as u32, whole: *enforced == RulesetStatus::FullyEnforced }
        }
        (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => Files::Nothing { why: "kernel too old" },
    }
}
