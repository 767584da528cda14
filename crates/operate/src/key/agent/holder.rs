//! The agent's side: holds keys, signs what is meant for its own user, and ends when it holds nothing any more.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ground::clock;
use ground::file::{FileError, Lock};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::secret::ROOM;
use identity::key::{PublicKey, Sign};
use identity::text::Bytes;
use identity::time::Seconds;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, Semaphore};
use zeroize::Zeroizing;

use crate::key::agent::meant::Purpose;
use crate::key::agent::memory::{PagedKey, harden};
use crate::key::agent::place::{AgentPlace, NoPlace};
use crate::key::agent::rest::{KeyHold, Reading, judge};
use crate::key::agent::words::{
    Given, HeldIn, HeldKey, KeyAgentAnswer, KeyAgentRequest, KeyAgentStatus, LONGEST, MAX_LINE, Material,
};
use crate::key::token::TokenKey;

#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    #[error(transparent)]
    Place(#[from] NoPlace),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("another agent of this user runs")]
    AlreadyRuns,
    #[error("the system did not let the agent {doing}")]
    System {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> HolderError {
    move |source| HolderError::System { doing, source }
}

/// How often it looks at the clocks. Before each signature it looks too.
const LOOK: Duration = Duration::from_millis(500);
/// An agent that nobody gives a key does not stay.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one asker may take, how many may ask at once, and how many keys are held.
const TURN: Duration = Duration::from_secs(10);
const ASKERS: usize = 16;
const MAX_KEYS: usize = 64;

#[derive(Debug, Default)]
struct HeldKeys {
    leases: Vec<Lease>,
    /// Somebody brought something.
    given: bool,
    ended: bool,
}

#[derive(Debug)]
struct Lease {
    told: HeldKey,
    key: Arc<dyn Sign>,
    begun: Reading,
    span: Duration,
}

#[derive(Debug, Default)]
struct Holder {
    keys: Mutex<HeldKeys>,
    locked: Notify,
}

/// Runs until nothing is held any more. `ready` is called once it listens.
pub async fn serve(place: &AgentPlace, ready: impl FnOnce()) -> Result<(), HolderError> {
    harden().map_err(system("turn off core dumps"))?;
    place.check()?;
    let _lock = Lock::take(&place.lock())?.ok_or(HolderError::AlreadyRuns)?;
    let socket = place.socket();
    // Whoever listened there has ended: we hold the lock.
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).map_err(system("listen"))?;
    // In a folder that only this user can enter, so nobody came before.
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).map_err(system("guard its socket"))?;
    let inode = std::fs::symlink_metadata(&socket).map_err(system("look at its socket"))?.ino();
    let (mut terminate, mut hang_up, mut interrupt) = (
        signal(SignalKind::terminate()).map_err(system("wait for signals"))?,
        signal(SignalKind::hangup()).map_err(system("wait for signals"))?,
        signal(SignalKind::interrupt()).map_err(system("wait for signals"))?,
    );
    let (holder, places) = (Arc::new(Holder::default()), Arc::new(Semaphore::new(ASKERS)));
    let begun = clocks();
    let mut tick = tokio::time::interval(LOOK);
    ready();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = hang_up.recv() => break,
            _ = interrupt.recv() => break,
            () = holder.locked.notified() => break,
            _ = tick.tick() => {
                // The socket goes with the user's session.
                let reachable = std::fs::symlink_metadata(&socket).is_ok_and(|meta| meta.ino() == inode);
                let waiting = clocks().elapsed.saturating_sub(begun.elapsed) < PATIENCE;
                if !reachable || holder.is_done(waiting) {
                    break;
                }
            }
            // Who comes when all places are taken waits at the door.
            (turn, come) = async { (places.clone().acquire_owned().await, listener.accept().await) } => {
                if let (Ok(turn), Ok((stream, _))) = (turn, come) {
                    let holder = holder.clone();
                    tokio::spawn(async move {
                        let _turn = turn;
                        let _ = tokio::time::timeout(TURN, entertain(&holder, stream)).await;
                    });
                }
            }
        }
    }
    holder.forget();
    if std::fs::symlink_metadata(&socket).is_ok_and(|meta| meta.ino() == inode) {
        let _ = std::fs::remove_file(&socket);
    }
    Ok(())
}

/// One question, one answer; only for who runs under the same user.
async fn entertain(holder: &Holder, mut stream: UnixStream) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    let answer = if stream.peer_cred()?.uid() == ours {
        let line = read_line(&mut stream).await?;
        match serde_json::from_slice(&line) {
            // A token may take its time.
            Ok(request) => tokio::task::block_in_place(|| holder.answer(request)),
            Err(_) => refused("the question is too long, or not one that this agent knows"),
        }
    } else {
        refused("this agent serves another user")
    };
    let mut told = serde_json::to_vec(&answer)?;
    told.push(b'\n');
    stream.write_all(&told).await?;
    stream.shutdown().await?;
    if matches!(answer, KeyAgentAnswer::Locked) {
        holder.locked.notify_one();
    }
    Ok(())
}

/// One line, straight from the socket: nothing of it stays in a buffer.
async fn read_line(stream: &mut UnixStream) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(ROOM));
    while line.last() != Some(&b'\n') && line.len() < MAX_LINE {
        if stream.read_buf(&mut *line).await? == 0 {
            break;
        }
    }
    Ok(line)
}

impl Holder {
    fn keys(&self) -> MutexGuard<'_, HeldKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may no longer be held is dropped before anything else is done.
    fn swept(&self) -> MutexGuard<'_, HeldKeys> {
        let mut keys = self.keys();
        let now = clocks();
        let verdicts: Vec<KeyHold> = keys.leases.iter().map(|lease| judge(lease.begun, now, lease.span)).collect();
        if verdicts.iter().any(|verdict| matches!(verdict, KeyHold::Slept | KeyHold::ClockJumped)) {
            keys.leases.clear();
        }
        keys.leases.retain(|lease| judge(lease.begun, now, lease.span) == KeyHold::Hold);
        keys
    }

    /// Nothing is held, and nobody is about to bring something. From then on nothing is taken.
    fn is_done(&self, waiting: bool) -> bool {
        let mut keys = self.swept();
        keys.ended = keys.ended || (keys.leases.is_empty() && (keys.given || !waiting));
        keys.ended
    }

    fn forget(&self) {
        let mut keys = self.keys();
        keys.leases.clear();
        keys.ended = true;
    }

    fn answer(&self, request: KeyAgentRequest) -> KeyAgentAnswer {
        match request {
            KeyAgentRequest::Status => self.status(),
            KeyAgentRequest::Hold { keys, seconds } => self.hold(keys, seconds),
            KeyAgentRequest::Sign { key, purpose, message } => self.sign(key, purpose, &message.0),
            KeyAgentRequest::Lock => {
                self.forget();
                KeyAgentAnswer::Locked
            }
        }
    }

    fn status(&self) -> KeyAgentAnswer {
        let keys = self.swept().leases.iter().map(|lease| lease.told.clone()).collect();
        KeyAgentAnswer::Status(KeyAgentStatus { pid: std::process::id(), keys })
    }

    fn hold(&self, keys: Vec<Given>, seconds: Seconds) -> KeyAgentAnswer {
        if seconds > LONGEST || seconds.0 == 0 {
            return refused("keys are held for 1s to 12h");
        }
        let begun = clocks();
        let mut taken = Vec::new();
        for given in keys {
            let (key, held_in) = match take(given.material) {
                Ok(taken) => taken,
                Err(why) => return refused(&why),
            };
            let told = HeldKey {
                org: given.org,
                org_name: given.org_name,
                signer: given.signer,
                key: key.public(),
                until: clock::now() + seconds,
                held_in,
            };
            taken.push(Lease { told, key, begun, span: Duration::from_secs(seconds.0) });
        }
        let mut keys = self.swept();
        if keys.ended {
            return KeyAgentAnswer::Ending;
        }
        let same = |lease: &Lease, new: &Lease| lease.told.key == new.told.key && lease.told.org == new.told.org;
        keys.leases.retain(|lease| !taken.iter().any(|new| same(lease, new)));
        if keys.leases.len() + taken.len() > MAX_KEYS {
            return refused("this agent holds as many keys as it can");
        }
        keys.leases.extend(taken);
        keys.given = true;
        drop(keys);
        self.status()
    }

    fn sign(&self, key: PublicKey, purpose: Purpose, message: &[u8]) -> KeyAgentAnswer {
        let mut verdict = "this key is not held any more".to_owned();
        let mut chosen = None;
        for lease in self.swept().leases.iter().filter(|lease| lease.told.key == key) {
            match purpose.check(lease.told.org, message) {
                Ok(()) => chosen = Some(lease.key.clone()),
                Err(why) => verdict = why.to_string(),
            }
        }
        // A token may wait for a touch: others are not kept waiting meanwhile.
        match chosen.map(|key| key.sign(message)) {
            None => refused(&verdict),
            Some(Ok(signature)) => KeyAgentAnswer::Signature(Bytes(signature)),
            Some(Err(why)) => refused(&why.to_string()),
        }
    }
}

/// An opened key, or a token that is logged in.
fn take(material: Material) -> Result<(Arc<dyn Sign>, HeldIn), String> {
    match material {
        Material::Seed(seed) => {
            let seed = seed.0.as_slice().try_into().map_err(|_| "this is not a signer's key".to_owned())?;
            let key = PagedKey::new(seed);
            let held_in = if key.is_locked() { HeldIn::LockedMemory } else { HeldIn::Memory };
            Ok((Arc::new(key), held_in))
        }
        Material::Token { uri, key, pin } => {
            let pin = pin.and_then(|pin| std::str::from_utf8(&pin.0).ok().map(|text| Passphrase::new(text.to_owned())));
            let open = TokenKey::open(&uri, key, |_: &str| pin.ok_or(NoPassphrase::NoTerminal));
            open.map(|key| (Arc::new(key) as Arc<dyn Sign>, HeldIn::Token)).map_err(|why| why.to_string())
        }
    }
}

fn refused(why: &str) -> KeyAgentAnswer {
    KeyAgentAnswer::Refused { why: why.to_owned() }
}

fn clocks() -> Reading {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    // The shorter first: what passes between the readings never looks like the opposite of sleep.
    let (awake, elapsed) = (read(ClockId::Monotonic), read(ClockId::Boottime));
    Reading { awake, elapsed, wall: read(ClockId::Realtime) }
}
