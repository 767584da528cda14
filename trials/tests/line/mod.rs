//! The line to paste: its script, run by real shells on machines that lack this or that, against servers that lie.

mod hostile;
mod interrupted;
mod kept;
mod machines;
mod resuming;
mod service;
mod shells;

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use trials::network::shelf::{Credential, Shelf, Way};
use trials::place::{binary, output, succeeded};

/// Everybody's ways to run a script. The last two are one shell: under its own name, and as sh.
const SHELLS: [&[&str]; 9] = [
    &["dash"],
    &["bash"],
    &["busybox", "sh"],
    &["mksh"],
    &["posh"],
    &["yash"],
    &["ksh93"],
    &["zsh"],
    &["zsh", "--emulate", "sh"],
];

/// What the script may count on beside a fetcher and a hasher.
const BASE: [&str; 17] = [
    "sh", "cat", "chmod", "df", "env", "id", "kill", "mkdir", "mv", "rm", "rmdir", "sleep", "sync", "tr", "uname",
    "wc", "printf",
];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates/operate/assets/join.sh")
}

/// A machine that has the script: folders of its own, and only those tools that it was given.
struct Host {
    folder: TempDir,
    shell: &'static [&'static str],
    /// Nothing: whatever this machine has.
    tools: Option<PathBuf>,
}

impl Host {
    fn new() -> Self {
        Self::with_shell(&["dash"])
    }

    fn with_shell(shell: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder, shell, tools: None }
    }

    /// Has the base and these, nothing else.
    fn with_only(tools: &[&str]) -> Self {
        let mut host = Self::new();
        let folder = host.path("tools");
        std::fs::create_dir(&folder).unwrap();
        for tool in BASE.iter().chain(tools).chain(host.shell.first()) {
            let found =
                ["/usr/bin", "/bin", "/usr/sbin"].iter().map(|at| Path::new(at).join(tool)).find(|at| at.exists());
            let found = found.unwrap_or_else(|| panic!("`{tool}` is not installed: scripts/test does it"));
            let _ = symlink(found, folder.join(tool));
        }
        host.tools = Some(folder);
        host
    }

    /// Puts a program of the test's own in front of the others.
    fn tool(&mut self, name: &str, text: &str) {
        let folder = self.path("own-tools");
        let _ = std::fs::create_dir(&folder);
        write_program(&folder.join(name), text.as_bytes());
        if self.tools.is_none() {
            let _ = std::fs::create_dir(self.path("tools"));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn agent(&self) -> PathBuf {
        self.path("bin/freehold-node")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.shell();
        command.arg(script()).args(words);
        command
    }

    /// The shell, as it is on this machine.
    fn shell(&self) -> Command {
        let (shell, more) = self.shell.split_first().unwrap();
        let mut command = Command::new(shell);
        command.args(more);
        command.env("FREEHOLD_BIN", self.path("bin")).env("FREEHOLD_ROOT", self.path("orgs"));
        command.env("TMPDIR", self.path("tmp")).env("HOME", self.folder.path()).current_dir(self.folder.path());
        let others = self.tools.as_ref().map_or_else(|| std::env::var("PATH").unwrap(), |at| at.display().to_string());
        command.env("PATH", format!("{}:{others}", self.path("own-tools").display()));
        command
    }

    fn run(&self, words: &[&str], stdin: &str) -> Output {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("cannot run {command:?} (scripts/test): {why}"));
        // A script that reads no code hangs up.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert_eq!(std::fs::read_dir(self.path("tmp")).unwrap().count(), 0, "it left something in TMPDIR");
        output
    }

    /// `freehold-node` as the script put it in.
    fn node(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.agent());
        command.args(words).env("FREEHOLD_ROOT", self.path("orgs")).stdin(Stdio::null());
        output(command)
    }
}

fn write_program(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A server with everything that a line names.
struct Mirror {
    shelf: Shelf,
    root: String,
    list: String,
    agent: String,
}

impl Mirror {
    /// The agent is for this machine.
    fn of(agent: &[u8]) -> Self {
        Self::listed(agent, "linux x86_64")
    }

    fn listed(agent: &[u8], platform: &str) -> Self {
        let credential = Credential::make();
        Self::on(Shelf::serve(&credential), &credential, agent, platform)
    }

    fn on(shelf: Shelf, credential: &Credential, agent: &[u8], platform: &str) -> Self {
        let agent_hash = shelf.put(agent, Way::AsItIs);
        let list = format!("freehold-agents 1\n{platform} {agent_hash} {} 0.1.0\n", agent.len());
        let list = shelf.put(list.as_bytes(), Way::AsItIs);
        let root = shelf.put(credential.root_pem.as_bytes(), Way::AsItIs);
        Self { shelf, root, list, agent: agent_hash }
    }

    /// The words of a line.
    fn words<'a>(&'a self, url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["--gateway", url, "--root", &self.root, "--agents", &self.list], more].concat()
    }

    fn run(&self, host: &Host, more: &[&str], code: &str) -> Output {
        host.run(&self.words(&self.shelf.url(), more), code)
    }
}

/// The real agent without what a debugger needs: a file of a sensible size. Made once for each build of it.
pub fn real_agent() -> Vec<u8> {
    let built = binary("freehold-node");
    let age = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let stripped = built.with_extension("stripped");
    if age(&stripped) < age(&built) {
        let draft = built.with_extension(format!("{}.draft", std::process::id()));
        let mut command = Command::new("strip");
        command.arg("-o").arg(&draft).arg(&built);
        succeeded(&output(command));
        std::fs::rename(draft, &stripped).unwrap();
    }
    std::fs::read(stripped).unwrap()
}

/// A program that leaves a mark when it runs, whatever it is told, and joins nothing.
fn marking(mark: &Path) -> Vec<u8> {
    // Larger than a few packets, so that there is something to cut.
    let padding = "# what is after the end is never read\n".repeat(4000);
    let join = "if [ \"$1\" = join ]; then cat >/dev/null; echo harbor >\"$3\"; fi";
    format!("#!/bin/sh\necho \"$1\" >>'{}'\n{join}\nexit 0\n{padding}", mark.display()).into_bytes()
}
