//! The declared checks (health checks), for real: a port that accepts, a page that answers, a program that ends well.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use identity::principal::{HostPort, Name};
use identity::time::Seconds;
use manifest::stored::{Check, Probe};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::apply::keeper::{self, Kept};
use crate::apply::unfit::{BadProbe, Unfit};

/// No check may last longer than this, whatever it says.
const LONGEST: Seconds = Seconds(600);
/// Of what a program says, this much at its end is looked at.
const TAIL: usize = 4096;
const LONGEST_REASON: usize = 200;
/// What a keeper says is shorter.
const LONGEST_WORD: u64 = 64 << 10;
/// The head of a reply; its body is not read.
const MAX_REPLY_HEAD: usize = 64 << 10;
/// How long the last words of a program that has ended may take.
const LAST_WORDS: Duration = Duration::from_millis(200);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs all at once. Dropped, it ends what it began. Says of each that failed why.
pub(crate) async fn run(checks: BTreeMap<Name, Check>, files: PathBuf) -> Result<(), Unfit> {
    let mut running = JoinSet::new();
    for (name, check) in checks {
        let files = files.clone();
        running.spawn(async move { one(&check, &files).await.map_err(|why| (name, why)) });
    }
    let mut failed = BTreeMap::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err((name, why))) => {
                failed.insert(Some(name), why);
            }
            Err(why) => {
                failed.insert(None, BadProbe::Broken(why.to_string()));
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Unfit::Checks(failed)) }
}

async fn one(check: &Check, files: &Path) -> Result<(), BadProbe> {
    let limit = check.timeout.clamp(Seconds(1), LONGEST);
    let probe = async {
        match &check.probe {
            Probe::Tcp(at) => connect(at).await.map(drop),
            Probe::Http { at, path, status } => get(at, path, *status).await,
            Probe::Command(words) => command(words, files).await,
        }
    };
    let late = |_| Err(BadProbe::Late(limit));
    tokio::time::timeout(Duration::from_secs(limit.0), probe).await.unwrap_or_else(late)
}

async fn connect(at: &HostPort) -> Result<TcpStream, BadProbe> {
    let stream = TcpStream::connect((at.host.to_string(), at.port)).await;
    stream.map_err(|why| BadProbe::NotConnected { at: at.clone(), why: why.to_string() })
}

async fn get(at: &HostPort, path: &str, wanted: u16) -> Result<(), BadProbe> {
    let failed =
        |why: &dyn std::fmt::Display| BadProbe::NoPage { at: at.clone(), path: path.to_owned(), why: why.to_string() };
    let stream = connect(at).await?;
    let client =
        hyper::client::conn::http1::Builder::new().max_buf_size(MAX_REPLY_HEAD).handshake(TokioIo::new(stream));
    let (mut sender, connection) = client.await.map_err(|why| failed(&why))?;
    let request = hyper::Request::get(path)
        .header(hyper::header::HOST, at.to_string())
        .header(hyper::header::USER_AGENT, "freehold-node")
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|why| failed(&why))?;
    let answered = tokio::select! {
        answered = sender.send_request(request) => answered,
        // The connection ends by itself only if it broke off; the answer, if any, is told by the sender.
        Err(why) = connection => Err(why),
    };
    let found = answered.map_err(|why| failed(&why))?.status().as_u16();
    let other = || BadProbe::OtherStatus { at: at.clone(), path: path.to_owned(), found, wanted };
    if found == wanted { Ok(()) } else { Err(other()) }
}

/// Without a shell. A relative path with a slash is one of the files delivered. All that it began ends with it: its keeper sees to
/// that, also when this is dropped, and when the agent is killed.
pub(crate) async fn command(words: &[String], files: &Path) -> Result<(), BadProbe> {
    let program = words.first().ok_or(BadProbe::NoProgram)?;
    let broken = |why: io::Error| BadProbe::NotEnded { program: program.clone(), why: why.to_string() };
    let (mut socket, theirs) = keeper::line().map_err(broken)?;
    let mut keeper = keeper::command()
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .current_dir(files)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(broken)?;
    let mut words = serde_json::to_vec(words).map_err(|why| broken(why.into()))?;
    words.push(b'\n');
    let (mut said, mut told) = (Vec::new(), Vec::new());
    {
        let reading = tail(keeper.stderr.take(), &mut said);
        let telling = async {
            socket.write_all(&words).await?;
            (&mut socket).take(LONGEST_WORD).read_to_end(&mut told).await
        };
        tokio::pin!(reading, telling);
        let heard = tokio::select! {
            heard = &mut telling => {
                // Whatever escaped may hold the pipe open for ever.
                let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
                heard
            }
            () = &mut reading => telling.await,
        };
        heard.map_err(broken)?;
    }
    let status = match serde_json::from_slice(&told) {
        Ok(Kept::Ended(status)) => ExitStatus::from_raw(status),
        Ok(Kept::NotStarted(why)) => return Err(BadProbe::NotStarted { program: program.clone(), why }),
        Err(_) => return Err(broken(io::Error::other("what keeps it ended without a word"))),
    };
    if status.success() {
        return Ok(());
    }
    Err(BadProbe::Ended { program: program.clone(), status: status.to_string(), said: last_line(&said) })
}

/// Reads to the end, however much it is, and keeps the last of it.
async fn tail(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else {
        return;
    };
    let mut some = [0; TAIL];
    while let Ok(read @ 1..) = from.read(&mut some).await {
        kept.extend_from_slice(some.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(TAIL);
        kept.drain(..surplus);
    }
}

/// One line that is fit for a terminal.
fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().map(|c| if c.is_control() { '?' } else { c }).take(LONGEST_REASON).collect())
}

#[cfg(test)]
mod tests;
