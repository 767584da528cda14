//! A command's side of the agent: asked if it is there, never waited for.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ground::file::{FileError, Lock};
use ground::secret;
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::SignerName;
use identity::text::Bytes;
use identity::time::Seconds;

use crate::key::agent::meant::{NotMeant, Purpose};
use crate::key::agent::place::{AgentPlace, NoPlace};
use crate::key::agent::words::{Given, HeldKey, KeyAgentAnswer, KeyAgentRequest, KeyAgentStatus, MAX_LINE};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Place(#[from] NoPlace),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the agent could not be started")]
    NotStarted(#[source] io::Error),
    #[error("the agent did not start: {0}")]
    Ended(String),
    #[error("no agent runs")]
    NotThere,
    #[error("what listens at `{}` is another user's", .0.display())]
    NotOurs(PathBuf),
    #[error("the agent broke off")]
    BrokenOff(#[source] io::Error),
    #[error("the agent answered something else than was asked")]
    OtherAnswer,
    #[error("the agent refused: {0}")]
    Refused(String),
}

/// A person may have to touch a token; for everything else an agent needs moments.
const PATIENCE: Duration = Duration::from_mins(1);
const MOMENTS: Duration = Duration::from_secs(5);
/// An agent may end, or another command may start one, just when it is asked.
const TRIES: usize = 4;

/// What an agent says when it listens, and when another one does already.
pub const READY: &str = "ready";
pub const RUNS: &str = "another runs";

/// What the running agent holds; nothing if none runs.
pub fn status(place: &AgentPlace) -> Result<Option<KeyAgentStatus>, AgentError> {
    match ask(place, &KeyAgentRequest::Status) {
        Ok(KeyAgentAnswer::Status(status)) => Ok(Some(status)),
        Ok(_) => Err(AgentError::OtherAnswer),
        Err(AgentError::NotThere) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Hands keys over; starts an agent if none runs. `program` is what serves when called with the word `agent`.
pub fn hold(
    place: &AgentPlace,
    program: &Path,
    keys: Vec<Given>,
    seconds: Seconds,
) -> Result<KeyAgentStatus, AgentError> {
    place.make()?;
    let request = KeyAgentRequest::Hold { keys, seconds };
    for _ in 0..TRIES {
        match ask(place, &request) {
            Ok(KeyAgentAnswer::Status(status)) => return Ok(status),
            Ok(KeyAgentAnswer::Refused { why }) => return Err(AgentError::Refused(why)),
            Ok(KeyAgentAnswer::Ending) => drop(Lock::wait(&place.lock())?),
            Ok(KeyAgentAnswer::Signature(_) | KeyAgentAnswer::Locked) => return Err(AgentError::OtherAnswer),
            Err(AgentError::NotThere) => start(program)?,
            Err(why) => return Err(why),
        }
    }
    Err(AgentError::NotThere)
}

/// Makes the agent forget and end; false if none ran. What a killed one left is removed.
pub fn lock(place: &AgentPlace) -> Result<bool, AgentError> {
    match ask(place, &KeyAgentRequest::Lock) {
        Ok(KeyAgentAnswer::Locked) => {
            // It is locked when it has ended.
            drop(Lock::wait(&place.lock())?);
            Ok(true)
        }
        Ok(_) => Err(AgentError::OtherAnswer),
        Err(AgentError::NotThere) => {
            if place.socket().exists() && Lock::take(&place.lock())?.is_some() {
                let _ = std::fs::remove_file(place.socket());
            }
            Ok(false)
        }
        Err(why) => Err(why),
    }
}

/// The keys that this user's agent holds. Without an agent that can be trusted there are none: a command then asks.
pub(crate) fn keys_held() -> Vec<AgentKey> {
    let Ok(place) = AgentPlace::of_user() else {
        return Vec::new();
    };
    let held = status(&place).ok().flatten().map(|status| status.keys).unwrap_or_default();
    held.into_iter().map(|HeldKey { signer, key, .. }| AgentKey { place: place.clone(), signer, public: key }).collect()
}

/// A key that the agent holds.
#[derive(Debug)]
pub(crate) struct AgentKey {
    place: AgentPlace,
    signer: SignerName,
    public: PublicKey,
}

impl Sign for AgentKey {
    fn public(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey> {
        let not_signed = |why: &dyn std::fmt::Display| {
            BadKey::NotSigned(format!("the key of `{}` was unlocked, but did not sign: {why}", self.signer))
        };
        let purpose = Purpose::of(message).ok_or(NotMeant::OtherBytes).map_err(|why| not_signed(&why))?;
        let request = KeyAgentRequest::Sign { key: self.public, purpose, message: Bytes(message.to_vec()) };
        match ask(&self.place, &request) {
            Ok(KeyAgentAnswer::Signature(signature)) => {
                self.public.verify(message, &signature.0).map_err(|why| not_signed(&why))?;
                Ok(signature.0)
            }
            Ok(KeyAgentAnswer::Refused { why }) => Err(not_signed(&why)),
            Ok(_) => Err(not_signed(&AgentError::OtherAnswer)),
            Err(why) => Err(not_signed(&why)),
        }
    }
}

fn ask(place: &AgentPlace, request: &KeyAgentRequest) -> Result<KeyAgentAnswer, AgentError> {
    use rustix::net::sockopt::socket_peercred;
    let socket = place.socket();
    if !place.folder().exists() {
        return Err(AgentError::NotThere);
    }
    place.check()?;
    let mut stream = UnixStream::connect(&socket).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AgentError::NotThere,
        _ => AgentError::BrokenOff(why),
    })?;
    let peer = socket_peercred(&stream).map_err(|why| AgentError::BrokenOff(why.into()))?;
    if peer.uid != rustix::process::geteuid() {
        return Err(AgentError::NotOurs(socket));
    }
    let line = secret::to_line(request).map_err(|_| AgentError::OtherAnswer)?;
    let patience = match request {
        KeyAgentRequest::Status | KeyAgentRequest::Lock => MOMENTS,
        KeyAgentRequest::Hold { .. } | KeyAgentRequest::Sign { .. } => PATIENCE,
    };
    let mut told = Vec::new();
    let mut exchange = || -> io::Result<()> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(MOMENTS))?;
        stream.write_all(&line)?;
        BufReader::new((&stream).take(MAX_LINE as u64)).read_until(b'\n', &mut told)?;
        Ok(())
    };
    exchange().map_err(|why| match why.kind() {
        // One that is killed closes its socket before it is gone.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AgentError::NotThere,
        _ => AgentError::BrokenOff(why),
    })?;
    if told.is_empty() {
        // It ended just then.
        return Err(AgentError::NotThere);
    }
    serde_json::from_slice(&told).map_err(|_| AgentError::OtherAnswer)
}

/// A process of its own session, without our files, and without what may tell of secrets in the environment.
fn start(program: &Path) -> Result<(), AgentError> {
    let mut command = Command::new(program);
    command.arg("agent").current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FREEHOLD_")) {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(AgentError::NotStarted)?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe.take(4_096)).read_line(&mut line).map_err(AgentError::NotStarted)?;
    }
    match line.trim() {
        READY | RUNS => Ok(()),
        other => Err(AgentError::Ended(other.to_owned())),
    }
}
