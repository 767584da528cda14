//! One run of the tunnel's process: what it is told, in its order, and what it says.
//!
//! Whoever waits for an order to be in force waits no longer than `OBEYS_WITHIN`: a process that does not obey by then is
//! killed. Nothing is open then, so that whoever waited may go on.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tunnel::control::event::TunnelEvent;
use tunnel::control::order::{Numbered, Order};
use tunnel::control::question::TunnelAnswer;

use super::account::Account;
use super::child::Run;
use super::feed::Fed;
use super::{TunnelWish, child};

const OBEYS_WITHIN: Duration = Duration::from_secs(5);

/// Why a process is no longer attended to.
#[derive(Debug)]
pub(crate) enum End {
    /// It is not wanted any more.
    Dismissed,
    /// The agent is gone.
    Over,
    /// It ended, or had to be ended.
    Fell(String),
}

/// A process that runs, and what was said to it.
#[derive(Debug)]
pub(crate) struct Attended {
    pub child: Run,
    to: OwnedWriteHalf,
    words: mpsc::Receiver<TunnelEvent>,
    pub reader: JoinHandle<()>,
    fed: Fed,
    /// The number of the next order.
    next: u64,
    /// The number of the last order that it obeyed.
    obeyed: u64,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
    /// The last order that must be obeyed, and until when.
    due: Option<(u64, Instant)>,
    questions: BTreeMap<u64, oneshot::Sender<TunnelAnswer>>,
}

impl Attended {
    pub(crate) fn new(child: Run, socket: UnixStream) -> Self {
        let (mut from, to) = socket.into_split();
        let (told, words) = mpsc::channel(4);
        let reader = tokio::spawn(async move {
            while let Some(word) = child::next::<TunnelEvent>(&mut from).await {
                if told.send(word).await.is_err() {
                    return;
                }
            }
        });
        let (fed, next, due) = (Fed::default(), 1, None);
        let (waiting, questions) = (Vec::new(), BTreeMap::new());
        Self { child, to, words, reader, fed, next, obeyed: 0, waiting, due, questions }
    }

    pub(crate) async fn attend(&mut self, wishes: &mut mpsc::Receiver<TunnelWish>, account: &mut Account) -> End {
        if let Err(end) = self.feed(account).await {
            return end;
        }
        loop {
            let (due, met) = (self.due.map(|(_, at)| at), account.meetings.due());
            let news = account.hearing.due();
            let done = tokio::select! {
                biased;
                ended = self.child.wait() => {
                    let how = ended.map_or_else(|why| why.to_string(), |status| status.to_string());
                    Err(End::Fell(format!("it ended: {how}")))
                }
                () = at(due) => Err(End::Fell("it did not obey in time, and was killed".to_owned())),
                // Before what it says: a process that never stops talking keeps the agent from nothing.
                wish = wishes.recv() => self.take_wish(account, wish).await,
                // Before what it says next: it is one file for all whom it met meanwhile.
                () = at(met) => self.write_down(account).await,
                () = at(news) => {
                    account.hear();
                    Ok(())
                }
                word = self.words.recv() => match word {
                    Some(word) => {
                        self.take_word(account, word);
                        Ok(())
                    }
                    // Its end is told by the child, unless it closed only its socket.
                    None => timeout(OBEYS_WITHIN, self.child.wait()).await.map_or_else(
                        |_| Err(End::Fell("it said what it should not, and was killed".to_owned())),
                        |ended| Err(End::Fell(format!("it ended: {}", ended.map_or_else(|why| why.to_string(), |how| how.to_string())))),
                    ),
                },
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    async fn take_wish(&mut self, account: &mut Account, wish: Option<TunnelWish>) -> Result<(), End> {
        match wish {
            None => Err(End::Over),
            Some(TunnelWish::Follow(None, done)) => {
                account.follow(None);
                // It is answered when it is dead.
                self.child.kill().await;
                let _ = done.send(());
                Err(End::Dismissed)
            }
            Some(TunnelWish::Follow(Some(orders), done)) => {
                account.follow(Some(orders));
                match self.feed(account).await {
                    Ok(last) => {
                        self.wait_for(last, done);
                        Ok(())
                    }
                    Err(end) => {
                        // Whoever waits goes on when nothing is open any more, and not before.
                        self.child.kill().await;
                        drop(done);
                        Err(end)
                    }
                }
            }
            Some(TunnelWish::Ask(question, answer)) => {
                self.questions.retain(|_, asked| !asked.is_closed());
                let number = self.send(Order::Show(question)).await?;
                self.questions.insert(number, answer);
                Ok(())
            }
        }
    }

    fn take_word(&mut self, account: &mut Account, word: TunnelEvent) {
        match word {
            TunnelEvent::Done(number) => {
                self.due = self.due.filter(|(last, _)| *last > number);
                // Whoever obeys one after the other is not late. Whoever says the same again is.
                if number > self.obeyed && number < self.next {
                    self.obeyed = number;
                    self.due = self.due.map(|(last, _)| (last, Instant::now() + OBEYS_WITHIN));
                }
                for (wanted, done) in std::mem::take(&mut self.waiting) {
                    self.settle(wanted, done, number);
                }
            }
            TunnelEvent::Heard(news) => account.hearing.take(*news),
            TunnelEvent::Met(meeting) => account.meet(*meeting),
            TunnelEvent::Listens { at, failed } => account.listens(at, failed, self.due.is_some()),
            TunnelEvent::Shown { number, answer } => {
                if let Some(asked) = self.questions.remove(&number) {
                    let _ = asked.send(*answer);
                }
            }
        }
    }

    /// What changed. The number of the last order that was ever sent.
    async fn feed(&mut self, account: &Account) -> Result<u64, End> {
        let changes = match account.orders() {
            Some(orders) => self.fed.changes(orders, &account.meetings.met().pins),
            None => Vec::new(),
        };
        for order in changes {
            self.order(order).await?;
        }
        Ok(self.next - 1)
    }

    /// One file and one order, for all whom it met since the last time.
    async fn write_down(&mut self, account: &mut Account) -> Result<(), End> {
        account.write_down();
        let new = self.fed.new_pins(&account.meetings.met().pins);
        match new {
            Some(order) => self.order(order).await,
            None => Ok(()),
        }
    }

    /// It has to be obeyed.
    async fn order(&mut self, order: Order) -> Result<(), End> {
        let number = self.send(order).await?;
        let at = self.due.map_or_else(|| Instant::now() + OBEYS_WITHIN, |(_, at)| at);
        self.due = Some((number, at));
        Ok(())
    }

    fn wait_for(&mut self, last: u64, done: oneshot::Sender<()>) {
        match self.due {
            // Questions are numbered, too, but only orders are waited for.
            Some((wanted, _)) => self.waiting.push((wanted.min(last), done)),
            None => drop(done.send(())),
        }
    }

    fn settle(&mut self, wanted: u64, done: oneshot::Sender<()>, number: u64) {
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
