//! Keeps the tunnel's process running, and keeps what it says as far as that is to be believed.
//!
//! What cannot be written down here, or has to be left out, ends no stream: it is logged, and stands in `status`.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tunnel::control::event::Meeting;
use tunnel::control::listener::ListenerId;
use wire::peer::News;

use super::attend::{Attended, End};
use super::child::{Run, Started};
use super::feed::Orders;
use super::hear::Hearing;
use super::listens::Wished;
use super::meet::Meetings;
use super::view::{State, TunnelView, note};
use super::{Wish, child, is_news};
use crate::store::scope::Scope;
use crate::store::tunnel::log::AccessLog;
use crate::store::tunnel::{Met, write_pointers};

/// After it ended by itself; doubled each time, up to the longest, until it has stayed for a while.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const STAYED: Duration = Duration::from_mins(1);
/// Places whose ports are remembered, also of such as are gone.
const MOST_PORTS: usize = 4_096;
/// What it said last is written down meanwhile.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What the view tells trouble about.
const ACCESS_LOG: &str = "access log";
const MET: &str = "keys and ports";
const POINTERS: &str = "pointers";

#[derive(Debug)]
pub(crate) struct Supervisor {
    scope: Scope,
    pub(super) wishes: mpsc::Receiver<Wish>,
    heard: mpsc::Sender<News>,
    view: Arc<Mutex<TunnelView>>,
    pub(super) meetings: Meetings,
    pub(super) hearing: Hearing,
    orders: Option<Box<Orders>>,
    /// By these orders; made when it says where it listens.
    wished: Option<Wished>,
    /// Until that is written down.
    said: Option<Said>,
    pause: Duration,
}

/// Where it listens, and what failed.
#[derive(Debug)]
struct Said {
    at: BTreeMap<ListenerId, SocketAddr>,
    failed: BTreeMap<ListenerId, String>,
    /// It had not heard the last orders then, or was not through with them.
    is_behind: bool,
}

impl Supervisor {
    pub(crate) fn new(
        scope: Scope,
        wishes: mpsc::Receiver<Wish>,
        heard: mpsc::Sender<News>,
        view: Arc<Mutex<TunnelView>>,
        met: Arc<Mutex<Met>>,
    ) -> Self {
        let (meetings, hearing) = (Meetings::new(met), Hearing::default());
        let (orders, said, pause) = (None, None, FIRST_PAUSE);
        Self { scope, wishes, heard, view, meetings, hearing, orders, wished: None, said, pause }
    }

    /// Until the agent is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let Some(orders) = &self.orders else {
                match self.wishes.recv().await {
                    Some(wish) => self.take_idle(wish),
                    None => return,
                }
                continue;
            };
            let began = Instant::now();
            let end = match child::start(&orders.org) {
                Ok(Started { run, socket, lines, log }) => {
                    let lines = self.keep_log(lines);
                    let log = tokio::task::spawn_blocking(move || child::copy_log(log, std::io::stderr()));
                    let end = self.attend(run, socket).await;
                    // It is dead: what it said last is not much.
                    let _ = timeout(LAST_WORDS, async { (lines.await, log.await) }).await;
                    self.said = None;
                    self.write_down();
                    end
                }
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
    fn take_idle(&mut self, wish: Wish) {
        match wish {
            Wish::Follow(orders, done) => {
                self.follow(orders);
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

    async fn attend(&mut self, child: Run, socket: tokio::net::UnixStream) -> End {
        let pid = child.pid();
        tracing::info!(pid, "the tunnel's process was started");
        self.show(|view| {
            (view.state, view.pid, view.since) = (State::Running, pid, Some(clock::now()));
        });
        let mut attended = Attended::new(child, socket);
        let end = attended.attend(self).await;
        attended.reader.abort();
        // It may be in the middle of something; what it was told last is not in force by itself.
        attended.child.kill().await;
        end
    }

    /// In a thread of its own: a slow disk keeps nobody waiting.
    fn keep_log(&self, lines: PipeReader) -> JoinHandle<()> {
        let (log, view) = (AccessLog::new(&self.scope), Arc::clone(&self.view));
        tokio::task::spawn_blocking(move || log.keep(lines, |trouble| note(&view, ACCESS_LOG, trouble)))
    }

    pub(super) const fn orders(&self) -> Option<&Orders> {
        match &self.orders {
            Some(orders) => Some(&**orders),
            None => None,
        }
    }

    /// From now on these count.
    pub(super) fn follow(&mut self, orders: Option<Box<Orders>>) {
        self.orders = orders;
        self.wished = None;
        if let Some(said) = &mut self.said {
            said.is_behind = true;
        }
        self.meetings.judge_anew();
        let gaps = self.orders().map(|orders| orders.gaps.clone()).unwrap_or_default();
        self.show(|view| {
            for (about, why) in gaps.iter().filter(|(about, why)| view.troubles.get(*about) != Some(why)) {
                tracing::error!(about, why, "the tunnel goes without");
            }
            view.troubles.retain(|about, _| [ACCESS_LOG, MET, POINTERS].contains(&about.as_str()));
            view.troubles.extend(gaps);
        });
    }

    pub(super) fn show(&self, change: impl FnOnce(&mut TunnelView)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Verified here, so that whoever lies does not disturb the agent.
    pub(super) fn hear(&mut self) {
        let Some(news) = self.hearing.look_at_next() else { return };
        match is_news(&self.scope, &news) {
            Ok(true) => {
                if self.heard.try_send(news).is_err() {
                    tracing::debug!("the agent has not taken the last news yet");
                }
            }
            Ok(false) => {}
            Err(why) => self.hearing.disbelieve(&describe(&why)),
        }
    }

    pub(super) fn meet(&mut self, meeting: Meeting) {
        if let Some(orders) = &self.orders {
            self.meetings.take(orders, meeting);
        }
    }

    pub(super) fn listens(
        &mut self,
        at: BTreeMap<ListenerId, SocketAddr>,
        failed: BTreeMap<ListenerId, String>,
        is_behind: bool,
    ) {
        self.said = Some(Said { at, failed, is_behind });
        self.meetings.write_soon();
    }

    /// All that it said since the last time, in files that are written once for all of it.
    pub(super) fn write_down(&mut self) {
        if let (Some(Said { at, failed, is_behind }), Some(orders)) = (self.said.take(), &self.orders) {
            let (said, wished) = (at.len(), self.wished.get_or_insert_with(|| Wished::by(orders)));
            let (at, failed) = wished.believe(at, failed);
            let believed = at.len();
            if believed < said && is_behind {
                tracing::info!(ends = said - believed, "the tunnel is about to listen no more where it need not");
            } else if believed < said {
                tracing::warn!(said, believed, "the tunnel says that it listens where it should not");
            }
            let forwards = orders.run.policy.forward.clone();
            self.note_ports(&at);
            self.show(|view| (view.listens, view.failed, view.forwards) = (at, failed, forwards));
        }
        let saved = self.meetings.save(&self.scope);
        let cure = "they are forgotten when the agent ends: free space";
        note(&self.view, MET, saved.err().map(|why| format!("{}; {cure}", describe(&why))));
    }

    fn note_ports(&mut self, at: &BTreeMap<ListenerId, SocketAddr>) {
        let mut ports = self.meetings.met().ports.clone();
        ports.extend(at.iter().map(|(place, at)| (place.clone(), *at)));
        if ports.len() > MOST_PORTS {
            ports = at.iter().take(MOST_PORTS).map(|(place, at)| (place.clone(), *at)).collect();
        }
        self.meetings.had_ports(&ports);
        let Some(orders) = &mut self.orders else {
            return;
        };
        orders.run.ports = ports;
        if orders.run.policy.resolver.is_some() {
            let written = write_pointers(&self.scope, &orders.org, at);
            note(&self.view, POINTERS, written.err().map(|why| format!("{}; free space", describe(&why))));
        }
    }
}

#[cfg(test)]
mod tests;
