//! A throwaway place: a home, a gateway process, node folders. Everything ends when it is dropped.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::port::Claim;

/// The longest that a walk waits for something to become so, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A home of its own and ports that were free a moment ago: the gateway's, and the one at which its own node is reached.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    pub port: u16,
    _claim: Claim,
    peers: Claim,
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// SIGKILL: no time to tidy up.
    pub fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// SIGTERM, then the exit code.
    pub fn stop(self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        self.end().0
    }

    /// Waits until it has ended by itself: its exit code, and what it said on stderr if that was piped.
    pub fn end(mut self) -> (Option<i32>, String) {
        until("a process ends", || !matches!(self.0.try_wait(), Ok(None)));
        let mut told = String::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            let _ = pipe.read_to_string(&mut told);
        }
        (self.0.wait().ok().and_then(|status| status.code()), told)
    }
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|why| panic!("no temporary folder: {why}"));
        let claim = Claim::new();
        Self { folder, port: claim.port, _claim: claim, peers: Claim::new() }
    }

    /// A founded org `harbor`, keys unprotected.
    pub fn founded(extra: &[&str]) -> Self {
        let place = Self::new();
        let address = place.address();
        let mut words = vec!["found", "harbor", "--unprotected", "--advertise", &address];
        words.extend_from_slice(extra);
        succeeded(&place.freehold(&words));
        place
    }

    /// The same, with the recovery phrases.
    pub fn with_phrases(extra: &[&str]) -> (Self, Vec<String>) {
        let place = Self::new();
        let address = place.address();
        let words = ["found", "harbor", "--unprotected", "--advertise", &address];
        let founded = place.facts(&[&words[..], extra].concat());
        let phrases = founded.get("recovery").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let phrases = phrases.map(str::to_owned).collect();
        (place, phrases)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The org's folder on the operator's machine.
    pub fn org(&self) -> PathBuf {
        self.home().join("harbor")
    }

    /// A node's folder for the org.
    pub fn scope(&self, node: &str) -> PathBuf {
        self.root(node).join("harbor")
    }

    /// A node's root.
    pub fn root(&self, node: &str) -> PathBuf {
        self.folder.path().join(node)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `freehold` with this home, to its end.
    pub fn freehold(&self, words: &[&str]) -> Output {
        output(self.freehold_command(words))
    }

    pub fn freehold_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary("freehold"));
        command.args(words).arg("--home").arg(self.home()).stdin(Stdio::null()).env("USER", "ann");
        command.current_dir(self.folder.path());
        command
    }

    /// `freehold` as another operator, with a home of their own, through the gateway's door.
    pub fn operator(&self, home: &str, words: &[&str]) -> Output {
        let mut command = Command::new(binary("freehold"));
        command.args(words).arg("--home").arg(self.path(home)).arg("--gateway").arg(self.address());
        command.current_dir(self.folder.path()).stdin(Stdio::null()).env("USER", "ann");
        output(command)
    }

    /// Brings a home up to date, and signs with it what waits.
    pub fn co_sign(&self, home: &str, file: &str) -> Output {
        succeeded(&self.operator(home, &["node", "list"]));
        self.operator(home, &["sign", file, "--yes"])
    }

    /// The JSON that another operator's command prints.
    pub fn operator_facts(&self, home: &str, words: &[&str]) -> Value {
        json(&self.operator(home, &[words, &["--json"]].concat()))
    }

    /// Copies a folder with everything in it, as a careless person would.
    pub fn copy(&self, from: &Path, to: &Path) {
        let mut command = Command::new("cp");
        command.arg("-a").arg(from).arg(to);
        succeeded(&output(command));
    }

    /// A private file with a passphrase in it.
    pub fn passphrase(&self, words: &str) -> String {
        let path = self.path(&words.replace(' ', "-"));
        let written =
            std::fs::write(&path, words).and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o600)));
        written.unwrap_or_else(|why| panic!("no passphrase file: {why}"));
        path.to_string_lossy().into_owned()
    }

    /// The JSON that a command prints.
    pub fn facts(&self, words: &[&str]) -> Value {
        json(&self.freehold(&[words, &["--json"]].concat()))
    }

    /// Writes the fleet. `@PEERS@` in it is where other nodes reach the gateway's own, which listens there.
    pub fn write_fleet(&self, text: &str) {
        let folder = self.path("fleet");
        let text = text.replace("@PEERS@", &self.peers.to_string());
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("fleet.yaml"), text));
        written.unwrap_or_else(|why| panic!("no fleet: {why}"));
    }

    /// Starts the gateway and waits until it listens.
    pub fn serve(&self) -> Running {
        let listen = self.address();
        let mut command = self.freehold_command(&["serve", "--json", "--listen", &listen]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|why| panic!("no gateway: {why}"));
        let stdout = child.stdout.take().unwrap_or_else(|| panic!("no output"));
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        assert!(line.contains("\"ready\""), "the gateway did not start: {line}");
        Running(child)
    }

    /// Makes an invite and returns its JSON.
    pub fn invite(&self, words: &[&str]) -> Value {
        self.facts(&[&["invite", "create"], words].concat())
    }

    pub fn code(&self, words: &[&str]) -> String {
        text(&self.invite(words), "code")
    }

    /// `freehold-node` with a root of its own, to its end; `stdin` is given to it.
    pub fn node(&self, node: &str, words: &[&str], stdin: &str) -> Output {
        fed(self.node_command(node, words), stdin)
    }

    /// The same on a network of its own, where nobody listens, whatever this machine runs.
    pub fn node_alone(&self, node: &str, words: &[&str], stdin: &str) -> Output {
        let inside = self.node_command(node, words);
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(inside.get_program()).args(inside.get_args());
        fed(command, stdin)
    }

    pub fn node_command(&self, node: &str, words: &[&str]) -> Command {
        let mut command = Command::new(binary("freehold-node"));
        command.args(words).arg("--root").arg(self.root(node)).stdin(Stdio::null());
        command
    }

    pub fn join(&self, node: &str, code: &str) -> Output {
        self.node(node, &["join", "--name", node], code)
    }

    /// A machine that joined with an invite of its own.
    pub fn joined(&self, node: &str) {
        succeeded(&self.join(node, &self.code(&["--name", node])));
    }

    /// Starts a node's agent; what it says is kept for `Running::end`.
    pub fn agent(&self, node: &str) -> Running {
        let mut command = self.node_command(node, &["run", "--every", "1s"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Running(child.unwrap_or_else(|why| panic!("no agent: {why}")))
    }

    /// What a node says of itself.
    pub fn status(&self, node: &str) -> Value {
        json(&self.node(node, &["status", "--json"], ""))
    }

    /// How many uses of an invite are spent.
    pub fn spent(&self, invite: &str) -> u64 {
        self.facts(&["invite", "show", invite]).get("spent").and_then(Value::as_u64).unwrap_or(u64::MAX)
    }

    /// The state of a node as the operator sees it.
    pub fn state_of(&self, node: &str) -> Option<String> {
        let nodes = self.facts(&["node", "list"]);
        // A key that is over, or that waits, may stand under the name of the one that has it.
        let rank = |row: &Value| row["state"].as_str().map(|state| (state != "revoked", state != "waiting"));
        let named = nodes.as_array()?.iter().filter(|row| row["name"] == node);
        named.max_by_key(|row| rank(row))?["state"].as_str().map(str::to_owned)
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// The built binary beside the test's own executable.
pub fn binary(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap_or_default();
    let folder = here.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let path = folder.join(name);
    assert!(path.exists(), "`{}` is missing: build it first, `cargo build --workspace`", path.display());
    path
}

fn fed(mut command: Command, stdin: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("could not run {command:?}: {why}"));
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(stdin.as_bytes());
    }
    child.wait_with_output().unwrap_or_else(|why| panic!("{command:?} was lost: {why}"))
}

pub fn output(mut command: Command) -> Output {
    command.output().unwrap_or_else(|why| panic!("could not run {command:?}: {why}"))
}

/// The same words where they stand in JSON: names have no marks there.
pub fn as_fact(words: &str) -> String {
    words.replace('`', "")
}

/// It did all that it could: what is left is for other operators to sign, and it says so.
pub fn succeeded(output: &Output) {
    assert!(output.status.success() || is_left_to_others(output), "failed: {}{}", stdout(output), stderr(output));
}

/// Exit code 5, and who is missing.
pub fn is_left_to_others(output: &Output) -> bool {
    let told = stdout(output);
    let says = ["must sign it, too", "\"needs\":", "\"complete\": false", "\"done\": false"]
        .iter()
        .any(|words| told.contains(words));
    output.status.code() == Some(5) && says
}

/// A refusal: exit code 3, and words that say why.
pub fn refused(output: &Output, why: &str) {
    ended(output, 3, why);
}

/// It did not work out: an exit code, and words that say why.
pub fn ended(output: &Output, exit: i32, why: &str) {
    let told = stderr(output);
    assert_eq!(output.status.code(), Some(exit), "not exit code {exit}: {}{told}", stdout(output));
    // With `--json` the same words have no marks around names.
    let is_said = told.contains(why) || told.contains(&why.replace('`', ""));
    assert!(is_said, "expected `{why}` in: {told}");
}

/// Looks until it is so. A look is often a program of its own: it gets no more of the machine than what is waited for.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let begun = Instant::now();
        if so() {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(LOOK_AGAIN.max(begun.elapsed()));
    }
}

/// `openssl` in a folder; what it prints.
pub fn openssl(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(words).stdin(Stdio::null());
    let output = output(command);
    succeeded(&output);
    stdout(&output)
}

/// The permission bits of a file or folder.
pub fn mode(path: &Path) -> u32 {
    let meta = std::fs::symlink_metadata(path);
    meta.unwrap_or_else(|why| panic!("`{}`: {why}", path.display())).permissions().mode() & 0o777
}

/// Every file and folder below a folder, links not followed.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
    }
    found
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> Value {
    succeeded(output);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("not JSON ({why}): {}", stdout(output)))
}

pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no `{field}` in {value}")).to_owned()
}
