//! The tunnel's process: obeys what the agent orders, in its order, and ends when the agent does.
//!
//! An order is in force when `Done` says so. One that cannot be obeyed ends the process: nothing is open then, and the agent
//! begins anew.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Instant;

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use manifest::stored::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::attend::attend;
use crate::dial::{Dialer, NoStream};
use crate::held::{BadOrder, Held};
use crate::limit::WINDOW;
use crate::live::{CutOff, Way};
use crate::names::Wanted;
use crate::orders::{Answer, MOST, Numbered, Order, Question, View, Way as Tried, Word};
use crate::peers::Peers;
use crate::ways::{Listens, Ways};

/// Words of the process itself that may wait for the agent.
const WORDS: usize = 64;

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

/// Until the agent ends. `log` is where each stream is written down, `sandbox` what confines this process.
pub async fn run(control: StdUnixStream, log: File, sandbox: String) -> Result<(), ProcessError> {
    control.set_nonblocking(true)?;
    let (mut orders, answers) = UnixStream::from_std(control)?.into_split();
    let Some(Numbered { order: Order::Be { org, node }, .. }) = next(&mut orders).await? else {
        return Err(ProcessError::OutOfTurn);
    };
    let Some(Numbered { number, order: Order::Know(knowledge) }) = next(&mut orders).await? else {
        return Err(ProcessError::OutOfTurn);
    };
    let (held, told) = Held::new(org, node, *knowledge)?;
    held.log.write_to(log)?;
    let (words, own) = mpsc::channel(WORDS);
    let writer = tokio::spawn(write(answers, own, told));
    let mut process = Process::new(held, words, sandbox);
    process.say(Word::Done(number)).await;
    let counts = tokio::spawn(tell_rest(Arc::clone(&process.held)));
    let waits = tokio::spawn(attend(Arc::clone(&process.held), process.dialer.clone()));
    let obeyed = process.obey_all(&mut orders).await;
    waits.abort();
    counts.abort();
    writer.abort();
    obeyed
}

#[derive(Debug)]
struct Process {
    held: Arc<Held>,
    peers: Peers,
    words: mpsc::Sender<Word>,
    since: Timestamp,
    sandbox: String,
    dialer: Dialer,
    ways: Ways<Dialer>,
    /// What the agent was told last.
    listens: Listens,
}

impl Process {
    fn new(held: Held, words: mpsc::Sender<Word>, sandbox: String) -> Self {
        let held = Arc::new(held);
        let dialer = Dialer::new(Arc::clone(&held));
        let ways = Ways::new(Arc::clone(&held), dialer.clone());
        let (peers, since, listens) = (Peers::default(), clock::now(), Listens::default());
        Self { held, peers, words, since, sandbox, dialer, ways, listens }
    }

    async fn obey_all(&mut self, orders: &mut OwnedReadHalf) -> Result<(), ProcessError> {
        while let Some(Numbered { number, order }) = next(orders).await? {
            let moves = match order {
                Order::Be { .. } => return Err(ProcessError::OutOfTurn),
                Order::Know(knowledge) => {
                    let cut = self.held.know(*knowledge)?;
                    self.tell_cut(&cut);
                    false
                }
                Order::Pin(pins) => {
                    self.held.pins.keep(pins);
                    false
                }
                Order::Speak(identities) => {
                    self.held.speak(&identities)?;
                    true
                }
                Order::Allow(tables) => {
                    let cut = self.held.allow(&tables);
                    self.tell_cut(&cut);
                    true
                }
                Order::Run(running) => {
                    self.peers.follow(&self.held, &running).await;
                    self.held.running.store(Some(Arc::from(running)));
                    true
                }
                Order::Show(question) => {
                    self.show(number, question).await;
                    continue;
                }
            };
            // Nobody waits for a new port to know that what is forbidden is.
            self.say(Word::Done(number)).await;
            if moves {
                self.follow().await;
            }
        }
        Ok(())
    }

    /// What a new rule ended: who, what, which head. The access log has each stream.
    fn tell_cut(&self, cut: &[CutOff]) {
        let head = self.held.rule.load().standing.head();
        let mut alike: BTreeMap<_, usize> = BTreeMap::new();
        for CutOff { principal, node, service, way, why } in cut {
            let way = match way {
                Way::In => "in",
                Way::Out => "out",
            };
            *alike.entry((principal, node, service, way, why.to_string())).or_default() += 1;
        }
        for ((principal, node, service, way, why), streams) in alike {
            tracing::warn!(%principal, %node, %service, way, streams, head, why, "cut what is no longer allowed");
        }
    }

    /// Whoever is at home and what may be called decides where programs are listened for.
    async fn follow(&mut self) {
        let Some(running) = self.held.running.load_full() else {
            return;
        };
        let mut listens = self.ways.follow(&running).await;
        listens.at.extend(self.peers.at());
        listens.failed.extend(self.peers.failed());
        if listens != self.listens {
            self.listens = listens.clone();
            let Listens { at, failed } = listens;
            self.say(Word::Listens { at, failed }).await;
        }
    }

    async fn show(&self, number: u64, question: Question) {
        let answer = match question {
            Question::View => Answer::View(self.view()),
            Question::Caller(connection) => Answer::Caller(self.held.book.caller(connection)),
            Question::Reach { service, who } => {
                // Others do not wait for what may take long.
                let (dialer, words, own) = (self.dialer.clone(), self.words.clone(), self.held.node.clone());
                let who = who.unwrap_or_else(|| Principal::node(&self.held.org, &own));
                tokio::spawn(async move {
                    let ways = reach(&dialer, own, &who, service).await;
                    let _ = words.send(Word::Shown { number, answer: Box::new(Answer::Reach(ways)) }).await;
                });
                return;
            }
        };
        self.say(Word::Shown { number, answer: Box::new(answer) }).await;
    }

    fn view(&self) -> View {
        let rule = self.held.rule.load();
        View {
            since: Some(self.since),
            head: rule.standing.head(),
            rules: rule.tables.rules(),
            peers: self.dialer.views(),
            callers: self.held.callers.views(),
            services: self.held.meter.counts(),
            relayed: self.held.meter.relayed.view(),
            handshakes: self.held.meter.handshakes(),
            sandbox: self.sandbox.clone(),
        }
    }

    /// The agent takes them, or is gone; then the reader ends.
    async fn say(&self, word: Word) {
        let _ = self.words.send(word).await;
    }
}

/// What was not told one by one in the access log.
async fn tell_rest(held: Arc<Held>) {
    loop {
        tokio::time::sleep(WINDOW).await;
        held.log.tell_rest(held.rule.load().standing.head(), Instant::now());
    }
}

/// What keeps it from being tried at all is told as a way that failed.
async fn reach(dialer: &Dialer, own: NodeName, who: &Principal, service: Name) -> Vec<Tried> {
    let failed = |why: NoStream| {
        vec![Tried { node: own, transport: Transport::Auto, through: None, outcome: Err(why.to_string()) }]
    };
    dialer.reach(who, &Wanted { service, node: None }).await.unwrap_or_else(failed)
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
async fn write(mut to: OwnedWriteHalf, mut own: mpsc::Receiver<Word>, mut told: mpsc::Receiver<Word>) {
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
