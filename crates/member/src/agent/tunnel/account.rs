//! What is wished of the tunnel's process, and what it says as far as that is to be believed.
//!
//! What cannot be written down here, or has to be left out, ends no stream: it is logged, and stands in `status`.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use identity::causes::describe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tunnel::control::event::Meeting;
use tunnel::control::listener::ListenerId;
use wire::peer::News;

use super::feed::Orders;
use super::hear::Hearing;
use super::is_news;
use super::listens::Wished;
use super::meet::Meetings;
use super::view::{TunnelView, note};
use crate::store::scope::Scope;
use crate::store::tunnel::log::AccessLog;
use crate::store::tunnel::{Met, write_pointers};

/// Places whose ports are remembered, also of such as are gone.
const MOST_PORTS: usize = 4_096;
/// What the view tells trouble about.
const ACCESS_LOG: &str = "access log";
pub(super) const MET: &str = "keys and ports";
const POINTERS: &str = "pointers";

#[derive(Debug)]
pub(crate) struct Account {
    scope: Scope,
    heard: mpsc::Sender<News>,
    view: Arc<Mutex<TunnelView>>,
    pub(super) meetings: Meetings,
    pub(super) hearing: Hearing,
    orders: Option<Box<Orders>>,
    /// By these orders; made when it says where it listens.
    wished: Option<Wished>,
    /// Until that is written down.
    pub(super) said: Option<SaidOfChild>,
}

/// Where it listens, and what failed.
#[derive(Debug)]
pub(super) struct SaidOfChild {
    at: BTreeMap<ListenerId, SocketAddr>,
    failed: BTreeMap<ListenerId, String>,
    /// It had not heard the last orders then, or was not through with them.
    pub(super) is_behind: bool,
}

impl Account {
    pub(super) fn new(
        scope: Scope,
        heard: mpsc::Sender<News>,
        view: Arc<Mutex<TunnelView>>,
        met: Arc<Mutex<Met>>,
    ) -> Self {
        let (meetings, hearing) = (Meetings::new(met), Hearing::default());
        Self { scope, heard, view, meetings, hearing, orders: None, wished: None, said: None }
    }

    /// In a thread of its own: a slow disk keeps nobody waiting.
    pub(super) fn keep_log(&self, lines: PipeReader) -> JoinHandle<()> {
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
        self.said = Some(SaidOfChild { at, failed, is_behind });
        self.meetings.write_soon();
    }

    /// It is dead.
    pub(super) fn forget(&mut self) {
        self.said = None;
        self.write_down();
    }

    /// All that it said since the last time, in files that are written once for all of it.
    pub(super) fn write_down(&mut self) {
        if let (Some(SaidOfChild { at, failed, is_behind }), Some(orders)) = (self.said.take(), &self.orders) {
            let (said, wished) = (at.len(), self.wished.get_or_insert_with(|| Wished::by(orders)));
            let (at, failed) = wished.believe(at, failed);
            let believed = at.len();
            if believed < said && is_behind {
                tracing::info!(ends = said - believed, "the tunnel is about to listen no more where it need not");
            } else if believed < said {
                tracing::warn!(said, believed, "the tunnel says that it listens where it should not");
            }
            let (forwards, address) = (orders.run.policy.forward.clone(), orders.run.address.clone());
            self.note_ports(&at);
            self.show(|view| {
                (view.listens, view.failed) = (at, failed);
                (view.forwards, view.address) = (forwards, address);
            });
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
