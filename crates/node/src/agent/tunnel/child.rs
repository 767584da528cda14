//! Starting the tunnel's process: this very program, without privileges, with nothing but its socket and a pipe for its log.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;

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

/// Ends when the child is dropped, or its socket is. With it come its end of the socket, and what it says for the access log.
pub fn start() -> io::Result<(Child, UnixStream, PipeReader)> {
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
            let hint = "root needs CAP_SETUID and CAP_SETGID to run it as nobody, and whatever starts the agent must leave it these; and others must be able to run this program's file";
            io::Error::new(why.kind(), format!("{why} ({hint})"))
        }
        _ => why,
    })?;
    Ok((child, UnixStream::from_std(ours)?, lines))
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
