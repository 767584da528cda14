//! Starting the tunnel's process: this very program, without privileges, with nothing but its socket and a pipe for its log.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::{Child, Command};
use tunnel::orders::{MOST, Numbered};
use zeroize::Zeroizing;

/// Nobody, on every system.
const NOBODY: u32 = 65_534;
/// The program as it runs: also if its file was replaced since, and if folders above it are closed to others.
const OURSELVES: &str = "/proc/self/exe";

/// The process, and all that it could make: it leads a group of its own, and they end together.
#[derive(Debug)]
pub struct Run {
    child: Child,
    /// Until it was killed.
    group: Option<Pid>,
}

impl Run {
    /// Of a child that leads its group.
    pub fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { child, group: id.and_then(Pid::from_raw) }
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Nothing of it runs any more then.
    pub async fn kill(&mut self) {
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

/// Ends when it is dropped, or its socket is. With it come its end of the socket, and what it says for the access log.
pub fn start() -> io::Result<(Run, UnixStream, PipeReader)> {
    let (lines, log) = io::pipe()?;
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(OURSELVES);
    command
        .args(["tunnel", "run"])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "FREEHOLD_LOG"))
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(log)
        .stderr(Stdio::inherit())
        // A Ctrl-C is for the agent, which ends it in its own time.
        .process_group(0)
        .kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let child = command.spawn().map_err(|why| match why.kind() {
        io::ErrorKind::PermissionDenied => {
            let hint = "root needs CAP_SETUID and CAP_SETGID to run it as nobody: freehold-node service install writes a unit that has them; and others must be able to run this program's file";
            io::Error::new(why.kind(), format!("{why} ({hint})"))
        }
        _ => why,
    })?;
    Ok((Run::new(child), UnixStream::from_std(ours)?, lines))
}

pub async fn send(to: &mut (impl tokio::io::AsyncWrite + Unpin), order: &Numbered) -> io::Result<()> {
    // It may hold keys.
    let json = Zeroizing::new(serde_json::to_vec(order)?);
    let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MOST).ok_or(io::ErrorKind::FileTooLarge)?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(&json).await
}

/// The next word; nothing if the process is gone, or says what it should not.
pub async fn next<T: DeserializeOwned>(from: &mut OwnedReadHalf) -> Option<T> {
    /// Everything that is open on a busy node.
    const LONGEST: usize = 16 << 20;
    let length = usize::try_from(from.read_u32().await.ok()?).ok().filter(|length| *length <= LONGEST)?;
    let mut json = vec![0; length];
    from.read_exact(&mut json).await.ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
