//! The agent as a service of this machine: the unit that systemd gets for one scope, and the calls that put it there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ground::file::{self, FileAccess, FileError};
use serde::Serialize;

/// Where an administrator's units lie.
const UNITS: &str = "/etc/systemd/system";
/// There while systemd is the first process.
const RUNS: &str = "/run/systemd/system";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("systemd does not run here")]
    NoSystemd,
    #[error("only root may install a service")]
    NotRoot,
    #[error("the path `{}` cannot be written into a unit", .0.display())]
    Path(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`systemctl {words}` could not be run")]
    NotRun {
        words: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`systemctl {words}` failed: {told}")]
    Systemctl { words: String, told: String },
}

/// How a service stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    pub unit: String,
    pub file: PathBuf,
    pub installed: bool,
    /// Starts with the machine.
    pub enabled: bool,
    pub running: bool,
}

/// One scope's unit.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    scope: String,
    text: String,
}

impl Unit {
    /// `program` runs the agent of the scope in `root`.
    pub(crate) fn new(program: &Path, root: &Path, scope: &str) -> Result<Self, ServiceError> {
        Ok(Self { scope: scope.to_owned(), text: text(&quoted(program)?, &quoted(root)?, scope) })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Writes the unit, lets it start with the machine, and starts it. What is so already stays as it is: an agent
    /// that runs by the same unit is not disturbed. Whether the unit is new or another one than before.
    pub(crate) fn install(&self) -> Result<bool, ServiceError> {
        may_change()?;
        let (name, path) = (name(&self.scope), path(&self.scope));
        let changed = file::read_if_there(&path)?.is_none_or(|there| there != self.text.as_bytes());
        if changed {
            file::write(&path, self.text.as_bytes(), FileAccess::Readable)?;
            systemctl(["daemon-reload"])?;
        }
        systemctl(["--quiet", "enable", &name])?;
        if changed {
            systemctl(["restart", &name])?;
        } else {
            systemctl(["start", &name])?;
        }
        Ok(changed)
    }
}

/// Stops it and takes it out. Whether there was one.
pub(crate) fn remove(scope: &str) -> Result<bool, ServiceError> {
    may_change()?;
    let (name, path) = (name(scope), path(scope));
    if file::read_if_there(&path)?.is_none() {
        return Ok(false);
    }
    systemctl(["--quiet", "disable", "--now", &name])?;
    std::fs::remove_file(&path).map_err(|source| FileError::Io { doing: "remove", path, source })?;
    file::sync_folder(Path::new(UNITS))?;
    systemctl(["daemon-reload"])?;
    // Gone is gone: a failure that it had is of no interest any more.
    let _ = systemctl(["--quiet", "reset-failed", &name]);
    Ok(true)
}

pub(crate) fn standing(scope: &str) -> Result<Standing, ServiceError> {
    let (unit, file) = (name(scope), path(scope));
    let installed = file::read_if_there(&file)?.is_some();
    let says = |word: &str| runs() && systemctl([word, "--quiet", &unit]).is_ok();
    Ok(Standing { installed, enabled: says("is-enabled"), running: says("is-active"), unit, file })
}

/// The scopes that have a unit.
pub(crate) fn scopes() -> Vec<String> {
    let entries = std::fs::read_dir(UNITS).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_prefix("freehold-node@")?.strip_suffix(".service")?.to_owned())
        })
        .collect();
    found.sort();
    found
}

pub(crate) fn runs() -> bool {
    Path::new(RUNS).is_dir()
}

pub(crate) fn name(scope: &str) -> String {
    format!("freehold-node@{scope}.service")
}

fn path(scope: &str) -> PathBuf {
    Path::new(UNITS).join(name(scope))
}

fn may_change() -> Result<(), ServiceError> {
    if !runs() {
        return Err(ServiceError::NoSystemd);
    }
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(ServiceError::NotRoot) }
}

fn systemctl<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<(), ServiceError> {
    let mut command = Command::new("systemctl");
    command.args(words).stdin(Stdio::null());
    let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.output().map_err(|source| ServiceError::NotRun { words: words.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let told = if told.is_empty() { output.status.to_string() } else { told };
    Err(ServiceError::Systemctl { words, told })
}

/// A path as a unit file may have it: systemd reads `%` and backslashes, quotes and blanks its own way.
fn quoted(path: &Path) -> Result<String, ServiceError> {
    let bad = || ServiceError::Path(path.to_owned());
    let text =
        path.to_str().filter(|text| path.is_absolute() && !text.contains(['"', '\'', '\\', '$'])).ok_or_else(bad)?;
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == ':') {
        return Err(bad());
    }
    Ok(text.replace('%', "%%"))
}

/// The agent runs as root, whose files its keys are, and can do little else: no capability but to let its tunnel be nobody
/// and to end it, nothing to write but its own scope, and the other scopes out of its sight. Checks that are programs run under the same bounds; hence no ban on
/// memory that is written and run, which some languages need.
fn text(program: &str, root: &str, scope: &str) -> String {
    format!(
        "# Written by `freehold-node service install`; changes belong into `systemctl edit {unit}`.
[Unit]
Description=Freehold agent of {scope}
Wants=network-online.target
After=network-online.target
ConditionPathExists={root}/{scope}/node.json
# It waits between attempts, and never gives up.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={program} run --root {root} --as {scope}
Restart=on-failure
RestartSec=2
# The operators revoked this machine: trying again changes nothing.
RestartPreventExitStatus=3
TimeoutStopSec=30
UMask=0077
# If the tunnel has to make room for others, the agent starts it again.
OOMPolicy=continue
# By these the tunnel decides how many it lets in.
LimitNOFILE=262144

# The tunnel runs as nobody, and confines itself further.
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL
NoNewPrivileges=yes
TemporaryFileSystem={root}:ro
BindPaths={root}/{scope}
ProtectSystem=strict
ReadWritePaths={root}/{scope}
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
",
        unit = name(scope)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_the_program_the_root_and_the_scope() {
        let unit = Unit::new(Path::new("/opt/50%/freehold-node"), Path::new("/srv/freehold"), "harbor").unwrap();
        assert!(unit.text().contains("ExecStart=/opt/50%%/freehold-node run --root /srv/freehold --as harbor\n"));
        assert!(unit.text().contains("BindPaths=/srv/freehold/harbor\n"));
    }

    #[test]
    fn a_path_that_systemd_would_read_otherwise_is_refused() {
        for path in ["/a b/x", "/a\"b", "/a\\b", "/a\nExecStartPre=/bin/x", "/a:b", "/a$b", "x", ""] {
            assert!(Unit::new(Path::new(path), Path::new("/srv"), "harbor").is_err(), "{path:?}");
            assert!(Unit::new(Path::new("/srv/x"), Path::new(path), "harbor").is_err(), "{path:?}");
        }
    }
}
