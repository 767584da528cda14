//! Starting the tunnel's process: this very program, without privileges, with nothing but its socket and pipes for what it logs.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use ground::plain::plain;
use identity::principal::OrgName;
use rustix::process::{Pid, Signal};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::{Child, Command};
use tunnel::control::order::{MOST, Numbered};
use zeroize::Zeroizing;

/// Nobody, on every system.
const NOBODY: u32 = 65_534;
/// The program as it runs: also if its file was replaced since, and if folders above it are closed to others.
const OURSELVES: &str = "/proc/self/exe";

/// A longer line of its own log becomes several.
const LONGEST_LINE: u64 = 4 << 10;
/// So many lines of it are copied in a second.
const LINES: u32 = 1_000;

/// Of a process that was started, the ends that are here.
#[derive(Debug)]
pub(crate) struct Started {
    pub run: Run,
    pub socket: UnixStream,
    /// What it says for the access log.
    pub lines: PipeReader,
    /// What it logs itself.
    pub log: PipeReader,
}

/// The process, and all that it could make: it leads a group of its own, and they end together.
#[derive(Debug)]
pub(crate) struct Run {
    child: Child,
    /// Until it was killed.
    group: Option<Pid>,
}

impl Run {
    /// Of a child that leads its group.
    pub(crate) fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { child, group: id.and_then(Pid::from_raw) }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Nothing of it runs any more then.
    pub(crate) async fn kill(&mut self) {
        self.kill_group();
        // What it was told is not in force, whatever becomes of it.
        let _ = self.child.kill().await;
    }

    /// Also if it ended by itself: what it made would go on. The system gives its number to no other while one of them is there.
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // There may be none left.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Ends when it is dropped, or its socket is. `ps` shows which org it is for.
pub(crate) fn start(org: &OrgName) -> io::Result<Started> {
    let (lines, says) = io::pipe()?;
    let (log, logs) = io::pipe()?;
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(OURSELVES);
    command
        .arg0(own_name(std::env::args_os().next().as_deref()))
        .args(["tunnel", "run", org.as_str()])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "FREEHOLD_LOG"))
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(says)
        // Not the agent's own, which may be a terminal.
        .stderr(logs)
        // A Ctrl-C is for the agent, which ends it in its own time.
        .process_group(0)
        .kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let child = command.spawn().map_err(|why| match why.kind() {
        io::ErrorKind::PermissionDenied => {
            let hint = "root needs CAP_SETUID and CAP_SETGID to run it as nobody, and whatever starts the agent must leave it these; and others must be able to run this program's file";
            io::Error::new(why.kind(), format!("{why} ({hint})"))
        }
        _ => why,
    })?;
    Ok(Started { run: Run::new(child), socket: UnixStream::from_std(ours)?, lines, log })
}

/// How this program was called, without the folder.
fn own_name(called: Option<&OsStr>) -> &OsStr {
    called.and_then(|called| Path::new(called).file_name()).unwrap_or_else(|| OsStr::new("freehold-node"))
}

/// Copies what it logs into the agent's own log, until it is gone. Each line is marked, cut and plain: whoever took the process
/// over says nothing in the agent's name, and nothing to a terminal.
pub(crate) fn copy_log(log: impl Read, mut to: impl Write) {
    let mut log = BufReader::new(log);
    let (mut since, mut copied, mut left_out) = (Instant::now(), 0, 0_u64);
    let mut say = |text: &str| {
        // In one piece, between the agent's lines. If nobody takes it, it is read all the same: the process is not to stand still.
        let _ = to.write_all(format!("tunnel: {text}\n").as_bytes());
    };
    loop {
        let mut line = Vec::new();
        // What cannot be read any more is at its end.
        let is_over = log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_or(true, |read| read == 0);
        let is_new_second = since.elapsed() >= Duration::from_secs(1);
        if (is_over || is_new_second) && left_out > 0 {
            say(&format!("and {left_out} more lines, too many to copy"));
            left_out = 0;
        }
        if is_over {
            return;
        }
        if is_new_second {
            (since, copied) = (Instant::now(), 0);
        }
        if copied < LINES {
            copied += 1;
            say(&plain(String::from_utf8_lossy(&line).trim_end_matches('\n')));
        } else {
            left_out += 1;
        }
    }
}

pub(crate) async fn send(to: &mut (impl tokio::io::AsyncWrite + Unpin), order: &Numbered) -> io::Result<()> {
    // It may hold keys.
    let json = Zeroizing::new(serde_json::to_vec(order)?);
    let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MOST).ok_or(io::ErrorKind::FileTooLarge)?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(&json).await
}

/// The next word; nothing if the process is gone, or says what it should not.
pub(crate) async fn next<T: DeserializeOwned>(from: &mut OwnedReadHalf) -> Option<T> {
    /// Everything that is open on a busy node.
    const LONGEST: usize = 16 << 20;
    let length = usize::try_from(from.read_u32().await.ok()?).ok().filter(|length| *length <= LONGEST)?;
    let mut json = vec![0; length];
    from.read_exact(&mut json).await.ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn it_is_shown_under_the_name_of_this_program() {
        for (called, shown) in [
            (Some("/usr/local/bin/freehold"), "freehold"),
            (Some("freehold-node"), "freehold-node"),
            (None, "freehold-node"),
        ] {
            assert_eq!(own_name(called.map(OsStr::new)), shown);
        }
    }

    fn copied(log: &str) -> String {
        let mut out = Vec::new();
        copy_log(log.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_line_of_the_process_passes_for_one_of_the_agent() {
        assert_eq!(copied("panicked at x.rs\n  here\n"), "tunnel: panicked at x.rs\ntunnel:   here\n");
        assert_eq!(copied("not ended"), "tunnel: not ended\n");
        let odd = copied("up\x1b[1A\r2026-01-01 ERROR the agent ends\u{202e}\n");
        assert_eq!(odd, "tunnel: up\\u{1b}[1A\\u{d}2026-01-01 ERROR the agent ends\\u{202e}\n");
        let long = copied(&"x".repeat(10_000));
        assert_eq!(long.lines().map(str::len).collect::<Vec<_>>(), [4_104, 4_104, 1_816]);
        assert!(long.lines().all(|line| line.starts_with("tunnel: ")), "{long}");
    }

    /// However long it takes, not all of them are there, and how many are not is said.
    #[test]
    fn who_logs_without_end_fills_no_disk() {
        let all = 200_000;
        let log = copied(&"noise\n".repeat(all));
        let left_out =
            log.lines().filter_map(|line| line.strip_prefix("tunnel: and ")?.split(' ').next()?.parse::<usize>().ok());
        let left_out: usize = left_out.sum();
        let there = log.lines().filter(|line| *line == "tunnel: noise").count();
        assert_eq!(there + left_out, all);
        assert!(left_out > 0, "{there}");
    }

    /// Its output is at its end when nobody holds it any more.
    #[tokio::test]
    async fn what_the_process_made_ends_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo ready; exec sleep 1000"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut said = child.stdout.take().unwrap();
        assert_eq!(said.read_u8().await.unwrap(), b'r');
        Run::new(child).kill().await;
        said.read_to_end(&mut Vec::new()).await.unwrap();
    }

    #[tokio::test]
    async fn what_the_process_left_behind_ends_too() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo ready"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut said = child.stdout.take().unwrap();
        let mut run = Run::new(child);
        assert!(run.wait().await.unwrap().success());
        drop(run);
        said.read_to_end(&mut Vec::new()).await.unwrap();
    }
}
