//! The tunnel's process: obeys what the agent orders, in its order, and ends when the agent does.
//!
//! An order is in force when `Done` says so. One that cannot be obeyed ends the process: nothing is open then, and the agent
//! begins anew.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use manifest::stored::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::accept::by_relay::wait_at_relays;
use crate::accept::listen::{self, ListenAddresses, PeerListeners};
use crate::control::event::TunnelEvent;
use crate::control::order::{MOST, Numbered, Order, TunnelConfig};
use crate::control::question::{ProbedWay, TunnelAnswer, TunnelQuestion};
use crate::control::view::View;
use crate::dial::destination::Destination;
use crate::dial::dialer::Dialer;
use crate::dial::no_stream::NoStream;
use crate::limit::bounds::Bounds;
use crate::local::listeners::{ListenReport, LocalListeners};
use crate::process::sandbox::Confined;
use crate::state::log_limit::WINDOW;
use crate::state::shared::{BadOrder, TunnelState};
use crate::state::streams::{CutStream, Direction};

/// Words of the process itself that may wait for the agent.
const WORDS: usize = 64;
/// What could not be bound is tried again: whoever has it may be gone.
const AGAIN: Duration = Duration::from_secs(3);
/// If there is more than a few of it, no earlier than that.
const MANY_AGAIN: Duration = Duration::from_secs(30);
const FEW: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("the socket to the agent broke")]
    Socket(#[from] io::Error),
    #[error("the agent sent an order of {0} bytes")]
    TooLong(u32),
    #[error("the agent sent an order that cannot be read: is it of another version?")]
    Unreadable(#[from] serde_json::Error),
    #[error("the agent did not say first who this is, and what is known")]
    OutOfTurn,
    #[error(transparent)]
    BadOrder(#[from] BadOrder),
}

/// Until the agent ends. `log` is where each stream is written down.
pub async fn run(control: StdUnixStream, log: File, confined: &Confined) -> Result<(), ProcessError> {
    control.set_nonblocking(true)?;
    let (mut orders, answers) = UnixStream::from_std(control)?.into_split();
    let Some(Numbered { order: Order::Be { org, node }, .. }) = next(&mut orders).await? else {
        return Err(ProcessError::OutOfTurn);
    };
    let Some(Numbered { number, order: Order::Know(knowledge) }) = next(&mut orders).await? else {
        return Err(ProcessError::OutOfTurn);
    };
    let (state, told) = TunnelState::new(org, node, *knowledge)?;
    let state = state.within(Bounds::of(confined.open_files));
    state.log.write_to(log)?;
    let (words, own) = mpsc::channel(WORDS);
    let writer = tokio::spawn(write(answers, own, told));
    let mut process = Process::new(state, words, confined.to_string());
    process.say(TunnelEvent::Done(number)).await;
    let counts = tokio::spawn(tell_rest(Arc::clone(&process.state)));
    let waits = tokio::spawn(wait_at_relays(Arc::clone(&process.state), process.dialer.clone()));
    let obeyed = process.obey_all(&mut orders).await;
    waits.abort();
    counts.abort();
    writer.abort();
    obeyed
}

#[derive(Debug)]
struct Process {
    state: Arc<TunnelState>,
    peers: PeerListeners,
    words: mpsc::Sender<TunnelEvent>,
    since: Timestamp,
    sandbox: String,
    dialer: Dialer,
    ways: LocalListeners<Dialer>,
    /// What the agent was told last.
    listens: ListenReport,
    /// When to try again to listen where it could not be.
    again: Option<Instant>,
}

impl Process {
    fn new(state: TunnelState, words: mpsc::Sender<TunnelEvent>, sandbox: String) -> Self {
        let state = Arc::new(state);
        let dialer = Dialer::new(Arc::clone(&state));
        let ways = LocalListeners::new(Arc::clone(&state), dialer.clone());
        let (peers, since, listens) = (PeerListeners::default(), clock::now(), ListenReport::default());
        Self { state, peers, words, since, sandbox, dialer, ways, listens, again: None }
    }

    async fn obey_all(&mut self, orders: &mut OwnedReadHalf) -> Result<(), ProcessError> {
        while let Some(Numbered { number, order }) = self.next(orders).await? {
            let moves = match order {
                Order::Be { .. } => return Err(ProcessError::OutOfTurn),
                Order::Know(knowledge) => {
                    let cut = self.state.know(*knowledge)?;
                    self.tell_cut(&cut);
                    false
                }
                Order::Pin(pins) => {
                    self.state.pins.keep(pins);
                    false
                }
                Order::Speak(identities) => {
                    self.state.svids.replace(&identities).map_err(BadOrder::from)?;
                    true
                }
                Order::Allow(tables) => {
                    let cut = self.state.allow(&tables);
                    self.tell_cut(&cut);
                    true
                }
                Order::Run(running) => {
                    self.peers.follow(&self.state, &running).await;
                    // Whoever waits for the order wants to know whether others reach this node.
                    self.tell_peers().await;
                    self.state.running.store(Some(Arc::from(running)));
                    true
                }
                Order::Show(question) => {
                    self.show(number, question).await;
                    continue;
                }
            };
            // Nobody waits for a new port to know that what is forbidden is.
            self.say(TunnelEvent::Done(number)).await;
            if moves {
                self.follow().await;
            }
        }
        Ok(())
    }

    /// The next order. Until it comes, what is missing is tried again.
    async fn next(&mut self, orders: &mut OwnedReadHalf) -> Result<Option<Numbered>, ProcessError> {
        // Half of an order may have come: it is read to its end.
        let mut coming = std::pin::pin!(next(orders));
        loop {
            let running = self.state.running.load_full();
            tokio::select! {
                biased;
                came = &mut coming => return came,
                (running, wished) = due(self.again, running) => {
                    self.peers.settle(&self.state, &running, wished).await;
                    let listens = self.ways.retry(&running).await;
                    self.tell_listens(listens).await;
                }
            }
        }
    }

    /// What a new policy ended: who, what, which head. The access log has each stream.
    fn tell_cut(&self, cut: &[CutStream]) {
        let head = self.state.policy.load().trust.head();
        let mut alike: BTreeMap<_, usize> = BTreeMap::new();
        for CutStream { principal, node, service, direction, why } in cut {
            let way = match direction {
                Direction::In => "in",
                Direction::Out => "out",
            };
            *alike.entry((principal, node, service, way, why.to_string())).or_default() += 1;
        }
        for ((principal, node, service, way, why), streams) in alike {
            tracing::warn!(%principal, %node, %service, way, streams, head, why, "cut what is no longer allowed");
        }
    }

    /// Whoever is at home and what may be called decides where programs are listened for.
    async fn follow(&mut self) {
        let Some(running) = self.state.running.load_full() else {
            return;
        };
        let listens = self.ways.follow(&running).await;
        self.tell_listens(listens).await;
    }

    /// Where other nodes are listened for now, beside what was told before.
    async fn tell_peers(&mut self) {
        let mut listens = self.listens.clone();
        listens.at.retain(|place, _| !place.is_for_peers());
        listens.failed.retain(|place, _| !place.is_for_peers());
        listens.at.extend(self.peers.at());
        listens.failed.extend(self.peers.failed());
        self.say_listens(listens).await;
    }

    async fn tell_listens(&mut self, mut listens: ListenReport) {
        listens.at.extend(self.peers.at());
        listens.failed.extend(self.peers.failed());
        self.again = match self.ways.missing().await + self.peers.failed().len() {
            0 => None,
            1..=FEW => Some(Instant::now() + AGAIN),
            _ => Some(Instant::now() + MANY_AGAIN),
        };
        self.say_listens(listens).await;
    }

    async fn say_listens(&mut self, listens: ListenReport) {
        if listens != self.listens {
            self.listens = listens.clone();
            let ListenReport { at, failed } = listens;
            self.say(TunnelEvent::Listens { at, failed }).await;
        }
    }

    async fn show(&self, number: u64, question: TunnelQuestion) {
        let answer = match question {
            TunnelQuestion::View => TunnelAnswer::View(self.view().bounded()),
            TunnelQuestion::Caller(connection) => TunnelAnswer::Caller(self.state.streams.caller(connection)),
            TunnelQuestion::Reach { service, who } => {
                // Others do not wait for what may take long.
                let (dialer, words, own) = (self.dialer.clone(), self.words.clone(), self.state.node.clone());
                let who = who.unwrap_or_else(|| Principal::node(&self.state.org, &own));
                tokio::spawn(async move {
                    let ways = reach(&dialer, own, &who, service).await;
                    let _ =
                        words.send(TunnelEvent::Shown { number, answer: Box::new(TunnelAnswer::Reach(ways)) }).await;
                });
                return;
            }
            TunnelQuestion::Call { service, who } => {
                let (dialer, words) = (self.dialer.clone(), self.words.clone());
                tokio::spawn(async move {
                    let called = dialer.try_call(&who, &Destination { service, node: None }).await;
                    let _ =
                        words.send(TunnelEvent::Shown { number, answer: Box::new(TunnelAnswer::Call(called)) }).await;
                });
                return;
            }
        };
        self.say(TunnelEvent::Shown { number, answer: Box::new(answer) }).await;
    }

    fn view(&self) -> View {
        let policy = self.state.policy.load();
        View {
            since: Some(self.since),
            head: policy.trust.head(),
            rules: policy.tables.rules(),
            peers: self.dialer.views(),
            callers: self.state.callers.views(),
            services: self.state.meter.counts(),
            relayed: self.state.meter.relayed.view(),
            handshakes: self.state.meter.handshakes(),
            programs: self.state.meter.programs(),
            sandbox: self.sandbox.clone(),
            left_out: 0,
            fewer: self.state.limits.bounds.told(),
        }
    }

    /// The agent takes them, or is gone; then the reader ends.
    async fn say(&self, word: TunnelEvent) {
        let _ = self.words.send(word).await;
    }
}

/// When it is time: by what, and where other nodes are to be listened for, which may have to be looked up.
async fn due(again: Option<Instant>, running: Option<Arc<TunnelConfig>>) -> (Arc<TunnelConfig>, ListenAddresses) {
    let (Some(again), Some(running)) = (again, running) else {
        return std::future::pending().await;
    };
    tokio::time::sleep_until(again.into()).await;
    let wished = listen::wished(&running).await;
    (running, wished)
}

/// What was not told one by one in the access log.
async fn tell_rest(state: Arc<TunnelState>) {
    loop {
        tokio::time::sleep(WINDOW).await;
        state.log.tell_rest(state.policy.load().trust.head(), Instant::now());
    }
}

/// What keeps it from being tried at all is told as a way that failed.
async fn reach(dialer: &Dialer, own: NodeName, who: &Principal, service: Name) -> Vec<ProbedWay> {
    let failed = |why: NoStream| {
        vec![ProbedWay { node: own, transport: Transport::Auto, through: None, outcome: Err(why.to_string()) }]
    };
    dialer.reach(who, &Destination { service, node: None }).await.unwrap_or_else(failed)
}

/// The next order; nothing if the agent is gone.
async fn next(from: &mut OwnedReadHalf) -> Result<Option<Numbered>, ProcessError> {
    let mut length = [0; 4];
    match from.read_exact(&mut length).await {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let length = u32::from_be_bytes(length);
    let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= MOST).ok_or(ProcessError::TooLong(length))?;
    // It may hold keys.
    let mut json = Zeroizing::new(vec![0; bytes]);
    from.read_exact(&mut json).await?;
    Ok(Some(serde_json::from_slice(&json)?))
}

/// What the process says itself comes first: nobody waits for the rest.
async fn write(mut to: OwnedWriteHalf, mut own: mpsc::Receiver<TunnelEvent>, mut told: mpsc::Receiver<TunnelEvent>) {
    loop {
        let word = tokio::select! {
            biased;
            Some(word) = own.recv() => word,
            Some(word) = told.recv() => word,
            else => return,
        };
        let Ok(json) = serde_json::to_vec(&word) else { continue };
        let Ok(length) = u32::try_from(json.len()) else { continue };
        let sent = async {
            to.write_all(&length.to_be_bytes()).await?;
            to.write_all(&json).await
        };
        if sent.await.is_err() {
            return;
        }
    }
}
