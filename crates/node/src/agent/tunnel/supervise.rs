//! Keeps the tunnel's process running, tells it what changed, and hears what it says.
//!
//! Whoever waits for an order to be in force waits no longer than `OBEYS_WITHIN`: a process that does not obey by then is
//! killed. Nothing is open then, so that whoever waited may go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::id::Digest;
use identity::principal::NodeName;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, timeout};
use tunnel::orders::{Answer, Numbered, Order, Word};
use wire::peer::News;

use super::feed::{Fed, Orders};
use super::view::{State, TunnelView};
use super::{Wish, child, is_news};
use crate::agent::trouble::describe;
use crate::store::scope::Scope;
use crate::store::tunnel::{Met, rotate_log, write_pointers};

const OBEYS_WITHIN: Duration = Duration::from_secs(5);
/// After it ended by itself; doubled each time, up to the longest, until it has stayed for a while.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const STAYED: Duration = Duration::from_mins(1);
/// Places whose ports are remembered, also of such as are gone.
const MOST_PORTS: usize = 4_096;
const LOOK_AT_LOG: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Supervisor {
    scope: Scope,
    wishes: mpsc::Receiver<Wish>,
    heard: mpsc::Sender<News>,
    view: Arc<Mutex<TunnelView>>,
    met: Arc<Mutex<Met>>,
    orders: Option<Box<Orders>>,
    pause: Duration,
}

/// Why a process is no longer attended to.
enum End {
    /// It is not wanted any more.
    Dismissed,
    /// The agent is gone.
    Over,
    /// It ended, or had to be ended.
    Fell(String),
}

impl Supervisor {
    pub fn new(
        scope: Scope,
        (wishes, heard): (mpsc::Receiver<Wish>, mpsc::Sender<News>),
        (view, met): (Arc<Mutex<TunnelView>>, Arc<Mutex<Met>>),
    ) -> Self {
        Self { scope, wishes, heard, view, met, orders: None, pause: FIRST_PAUSE }
    }

    /// Until the agent is gone.
    pub async fn run(mut self) {
        loop {
            if self.orders.is_none() {
                match self.wishes.recv().await {
                    Some(wish) => self.take_idle(wish),
                    None => return,
                }
                continue;
            }
            let began = Instant::now();
            let end = match child::start(&self.scope) {
                Ok((child, socket)) => self.attend(child, socket).await,
                Err(why) => End::Fell(format!("it could not be started: {why}")),
            };
            match end {
                End::Over => return,
                End::Dismissed => {
                    self.show(|view| *view = TunnelView { restarts: view.restarts, ..TunnelView::default() });
                }
                End::Fell(why) => {
                    if began.elapsed() >= STAYED {
                        self.pause = FIRST_PAUSE;
                    }
                    tracing::error!(why, again_in = ?self.pause, "the tunnel's process ended");
                    self.show(|view| {
                        let (restarts, problem) = (view.restarts.saturating_add(1), Some(why));
                        *view = TunnelView { state: State::Waiting, restarts, problem, ..TunnelView::default() };
                    });
                    if !self.rest().await {
                        return;
                    }
                }
            }
        }
    }

    /// While no process runs, nothing is open: whatever is wished is in force at once.
    fn take_idle(&mut self, wish: Wish) {
        match wish {
            Wish::Follow(orders, done) => {
                self.orders = orders;
                // While one is about to be started, whoever asks waits for nothing: it starts with these.
                let _ = done.send(());
            }
            // Whoever asks hears that there is none.
            Wish::Ask(_, answer) => drop(answer),
        }
    }

    /// Waits before the next start. Says no if the agent is gone.
    async fn rest(&mut self) -> bool {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        while self.orders.is_some() {
            match tokio::time::timeout_at(until, self.wishes.recv()).await {
                Err(_) => break,
                Ok(Some(wish)) => self.take_idle(wish),
                Ok(None) => return false,
            }
        }
        if self.orders.is_none() {
            self.show(|view| view.state = State::Off);
        }
        true
    }

    async fn attend(&mut self, child: Child, socket: tokio::net::UnixStream) -> End {
        let pid = child.id();
        tracing::info!(pid, "the tunnel's process was started");
        self.show(|view| {
            (view.state, view.pid, view.since) = (State::Running, pid, Some(clock::now()));
        });
        let mut attended = Attended::new(child, socket);
        let end = attended.attend(self).await;
        attended.reader.abort();
        // It may be in the middle of something; what it was told last is not in force by itself.
        let _ = attended.child.kill().await;
        end
    }

    fn show(&self, change: impl FnOnce(&mut TunnelView)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Verified here, so that whoever lies does not disturb the agent.
    fn hear(&self, news: News) {
        match is_news(&self.scope, &news) {
            Ok(true) => {
                if self.heard.try_send(news).is_err() {
                    tracing::debug!("the agent has not taken the last news yet");
                }
            }
            Ok(false) => {}
            Err(why) => tracing::warn!(why = describe(&why), "what a peer told of the org does not hold"),
        }
    }

    /// On disk, and in what the tunnel goes by. Says whether there is something to tell it.
    fn meet(&mut self, name: NodeName, node_key: Digest) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if !met.pin(name, node_key) {
            return false;
        }
        if let Err(why) = met.save(&self.scope) {
            tracing::error!(why = describe(&why), "whose key was met could not be written down");
        }
        if let Some(orders) = &mut self.orders {
            orders.know.pins.clone_from(&met.pins);
        }
        true
    }

    fn note_ports(&mut self, at: &BTreeMap<tunnel::orders::Place, std::net::SocketAddr>) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ports = met.ports.clone();
        ports.extend(at.iter().map(|(place, at)| (place.clone(), *at)));
        if ports.len() > MOST_PORTS {
            ports = at.iter().take(MOST_PORTS).map(|(place, at)| (place.clone(), *at)).collect();
        }
        if met.ports != ports {
            met.ports.clone_from(&ports);
            if let Err(why) = met.save(&self.scope) {
                tracing::error!(why = describe(&why), "where the tunnel listens could not be written down");
            }
        }
        let Some(orders) = &mut self.orders else {
            return;
        };
        orders.run.ports = ports;
        if orders.run.policy.resolver.is_some()
            && let Err(why) = write_pointers(&self.scope, &orders.org, at)
        {
            tracing::error!(why = describe(&why), "what points other programs here could not be written");
        }
    }
}

/// A process that runs, and what was said to it.
struct Attended {
    child: Child,
    to: OwnedWriteHalf,
    words: mpsc::Receiver<Word>,
    reader: JoinHandle<()>,
    fed: Fed,
    /// The number of the next order.
    next: u64,
    /// The number of the last order that it obeyed.
    obeyed: u64,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
    /// The last order that must be obeyed, and until when.
    due: Option<(u64, Instant)>,
    questions: BTreeMap<u64, oneshot::Sender<Answer>>,
    log: Interval,
}

impl Attended {
    fn new(child: Child, socket: tokio::net::UnixStream) -> Self {
        let (mut from, to) = socket.into_split();
        let (told, words) = mpsc::channel(4);
        let reader = tokio::spawn(async move {
            while let Some(word) = child::next::<Word>(&mut from).await {
                if told.send(word).await.is_err() {
                    return;
                }
            }
        });
        let log = tokio::time::interval(LOOK_AT_LOG);
        let (fed, next, due) = (Fed::default(), 1, None);
        let (waiting, questions) = (Vec::new(), BTreeMap::new());
        Self { child, to, words, reader, fed, next, obeyed: 0, waiting, due, questions, log }
    }

    async fn attend(&mut self, supervisor: &mut Supervisor) -> End {
        if let Err(end) = self.feed(supervisor).await {
            return end;
        }
        loop {
            let due = self.due.map(|(_, at)| at);
            let done = tokio::select! {
                biased;
                ended = self.child.wait() => {
                    let how = ended.map_or_else(|why| why.to_string(), |status| status.to_string());
                    Err(End::Fell(format!("it ended: {how}")))
                }
                () = at(due) => Err(End::Fell("it did not obey in time, and was killed".to_owned())),
                // Before what it says: a process that never stops talking keeps the agent from nothing.
                wish = supervisor.wishes.recv() => self.take_wish(supervisor, wish).await,
                word = self.words.recv() => match word {
                    Some(word) => self.take_word(supervisor, word).await,
                    // Its end is told by the child, unless it closed only its socket.
                    None => timeout(OBEYS_WITHIN, self.child.wait()).await.map_or_else(
                        |_| Err(End::Fell("it said what it should not, and was killed".to_owned())),
                        |ended| Err(End::Fell(format!("it ended: {}", ended.map_or_else(|why| why.to_string(), |how| how.to_string())))),
                    ),
                },
                _ = self.log.tick() => {
                    if let Err(why) = rotate_log(&supervisor.scope) {
                        tracing::warn!(%why, "the access log could not be put aside");
                    }
                    Ok(())
                }
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    async fn take_wish(&mut self, supervisor: &mut Supervisor, wish: Option<Wish>) -> Result<(), End> {
        match wish {
            None => Err(End::Over),
            Some(Wish::Follow(None, done)) => {
                supervisor.orders = None;
                // It is answered when it is dead.
                let _ = self.child.kill().await;
                let _ = done.send(());
                Err(End::Dismissed)
            }
            Some(Wish::Follow(Some(orders), done)) => {
                supervisor.orders = Some(orders);
                match self.feed(supervisor).await {
                    Ok(last) => {
                        self.wait_for(last, done);
                        Ok(())
                    }
                    Err(end) => {
                        // Whoever waits goes on when nothing is open any more, and not before.
                        let _ = self.child.kill().await;
                        drop(done);
                        Err(end)
                    }
                }
            }
            Some(Wish::Ask(question, answer)) => {
                self.questions.retain(|_, asked| !asked.is_closed());
                let number = self.send(Order::Show(question)).await?;
                self.questions.insert(number, answer);
                Ok(())
            }
        }
    }

    async fn take_word(&mut self, supervisor: &mut Supervisor, word: Word) -> Result<(), End> {
        match word {
            Word::Done(number) => {
                self.due = self.due.filter(|(last, _)| *last > number);
                // Whoever obeys one after the other is not late. Whoever says the same again is.
                if number > self.obeyed && number < self.next {
                    self.obeyed = number;
                    self.due = self.due.map(|(last, _)| (last, Instant::now() + OBEYS_WITHIN));
                }
                for (wanted, done) in std::mem::take(&mut self.waiting) {
                    self.settle((wanted, done), number);
                }
            }
            Word::Heard(news) => supervisor.hear(*news),
            Word::Met { name, node_key } => {
                if supervisor.meet(name, node_key) {
                    self.feed(supervisor).await?;
                }
            }
            Word::Listens { at, failed } => {
                supervisor.note_ports(&at);
                let orders = supervisor.orders.as_ref();
                let forwards = orders.map(|orders| orders.run.policy.forward.clone()).unwrap_or_default();
                supervisor.show(|view| (view.listens, view.failed, view.forwards) = (at, failed, forwards));
            }
            Word::Shown { number, answer } => {
                if let Some(asked) = self.questions.remove(&number) {
                    let _ = asked.send(*answer);
                }
            }
        }
        Ok(())
    }

    /// What changed. The number of the last order that was ever sent.
    async fn feed(&mut self, supervisor: &Supervisor) -> Result<u64, End> {
        let changes = supervisor.orders.as_ref().map(|orders| self.fed.changes(orders)).unwrap_or_default();
        for order in changes {
            let number = self.send(order).await?;
            let at = self.due.map_or_else(|| Instant::now() + OBEYS_WITHIN, |(_, at)| at);
            self.due = Some((number, at));
        }
        Ok(self.next - 1)
    }

    fn wait_for(&mut self, last: u64, done: oneshot::Sender<()>) {
        match self.due {
            // Questions are numbered, too, but only orders are waited for.
            Some((wanted, _)) => self.waiting.push((wanted.min(last), done)),
            None => drop(done.send(())),
        }
    }

    fn settle(&mut self, (wanted, done): (u64, oneshot::Sender<()>), number: u64) {
        if wanted <= number {
            let _ = done.send(());
        } else {
            self.waiting.push((wanted, done));
        }
    }

    async fn send(&mut self, order: Order) -> Result<u64, End> {
        let number = self.next;
        self.next += 1;
        let sent = async {
            child::send(&mut self.to, &Numbered { number, order }).await?;
            self.to.flush().await
        };
        match timeout(OBEYS_WITHIN, sent).await {
            Ok(Ok(())) => Ok(number),
            Ok(Err(why)) => Err(End::Fell(self.how_it_ended(&why).await)),
            Err(_) => Err(End::Fell("it took no orders, and was killed".to_owned())),
        }
    }

    /// A broken socket says less than how the process ended.
    async fn how_it_ended(&mut self, why: &std::io::Error) -> String {
        match timeout(Duration::from_secs(1), self.child.wait()).await {
            Ok(Ok(status)) => format!("it ended: {status}"),
            _ => format!("it could not be told anything: {why}"),
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
