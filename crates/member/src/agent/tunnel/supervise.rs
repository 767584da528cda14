//! Keeps the tunnel's process running, as long as there is something to carry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ground::clock;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use wire::peer::News;

use super::account::Account;
use super::attend::{Attended, End};
use super::child::{Run, Started};
use super::view::{State, TunnelView};
use super::{TunnelWish, child};
use crate::store::scope::Scope;
use crate::store::tunnel::Met;

/// After it ended by itself; doubled each time, up to the longest, until it has stayed for a while.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const STAYED: Duration = Duration::from_mins(1);
/// What it said last is written down meanwhile.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Supervisor {
    wishes: mpsc::Receiver<TunnelWish>,
    account: Account,
    pause: Duration,
}

impl Supervisor {
    pub(crate) fn new(
        scope: Scope,
        wishes: mpsc::Receiver<TunnelWish>,
        heard: mpsc::Sender<News>,
        view: Arc<Mutex<TunnelView>>,
        met: Arc<Mutex<Met>>,
    ) -> Self {
        Self { wishes, account: Account::new(scope, heard, view, met), pause: FIRST_PAUSE }
    }

    /// Until the agent is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let Some(orders) = self.account.orders() else {
                match self.wishes.recv().await {
                    Some(wish) => self.take_idle(wish),
                    None => return,
                }
                continue;
            };
            let began = Instant::now();
            let end = match child::start(&orders.org) {
                Ok(Started { run, socket, lines, log }) => {
                    let lines = self.account.keep_log(lines);
                    let log = tokio::task::spawn_blocking(move || child::copy_log(log, std::io::stderr()));
                    let end = self.attend(run, socket).await;
                    // It is dead: what it said last is not much.
                    let _ = timeout(LAST_WORDS, async { (lines.await, log.await) }).await;
                    self.account.forget();
                    end
                }
                Err(why) => End::Fell(format!("it could not be started: {why}")),
            };
            match end {
                End::Over => return,
                End::Dismissed => {
                    self.account.show(|view| *view = TunnelView { restarts: view.restarts, ..TunnelView::default() });
                }
                End::Fell(why) => {
                    if began.elapsed() >= STAYED {
                        self.pause = FIRST_PAUSE;
                    }
                    tracing::error!(why, again_in = ?self.pause, "the tunnel's process ended");
                    self.account.show(|view| {
                        let (restarts, problem) = (view.restarts.saturating_add(1), Some(why));
                        let troubles = std::mem::take(&mut view.troubles);
                        let fallen = TunnelView { restarts, problem, troubles, ..TunnelView::default() };
                        *view = TunnelView { state: State::Waiting, ..fallen };
                    });
                    if !self.rest().await {
                        return;
                    }
                }
            }
        }
    }

    /// While no process runs, nothing is open: whatever is wished is in force at once.
    fn take_idle(&mut self, wish: TunnelWish) {
        match wish {
            TunnelWish::Follow(orders, done) => {
                self.account.follow(orders);
                // While one is about to be started, whoever asks waits for nothing: it starts with these.
                let _ = done.send(());
            }
            // Whoever asks hears that there is none.
            TunnelWish::Ask(_, answer) => drop(answer),
        }
    }

    /// Waits before the next start. Says no if the agent is gone.
    async fn rest(&mut self) -> bool {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        while self.account.orders().is_some() {
            match tokio::time::timeout_at(until, self.wishes.recv()).await {
                Err(_) => break,
                Ok(Some(wish)) => self.take_idle(wish),
                Ok(None) => return false,
            }
        }
        if self.account.orders().is_none() {
            self.account.show(|view| view.state = State::Off);
        }
        true
    }

    async fn attend(&mut self, child: Run, socket: tokio::net::UnixStream) -> End {
        let pid = child.pid();
        tracing::info!(pid, "the tunnel's process was started");
        self.account.show(|view| {
            (view.state, view.pid, view.since) = (State::Running, pid, Some(clock::now()));
        });
        let mut attended = Attended::new(child, socket);
        let end = attended.attend(&mut self.wishes, &mut self.account).await;
        attended.reader.abort();
        // It may be in the middle of something; what it was told last is not in force by itself.
        attended.child.kill().await;
        end
    }
}

#[cfg(test)]
mod tests;
