//! How this gateway stands with the others: what each was told, what went wrong, and a bell for those who wait.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use identity::envelope::Envelope;
use identity::principal::NodeName;
use identity::time::Timestamp;
use org::ledger::frontier::Frontier;
use tokio::sync::watch;
use wire::control::PeerView;

/// Whoever asked so lately is there, and is waited for.
const PRESENT: Duration = Duration::from_secs(40);

#[derive(Debug, Default)]
pub struct Peers {
    states: Mutex<BTreeMap<NodeName, PeerState>>,
    /// The highest word that each gave about its ledger.
    tips: Mutex<BTreeMap<NodeName, Envelope>>,
    /// Held while this machine comes back at another gateway.
    pub(crate) coming_back: tokio::sync::Mutex<()>,
    /// Rings when there is something that other gateways want to know.
    news: watch::Sender<u64>,
    /// Rings when another gateway said how far it is.
    heard: watch::Sender<u64>,
    /// Rings when something here needs the others at once.
    hurry: watch::Sender<u64>,
}

#[derive(Debug, Default, Clone)]
struct PeerState {
    last_exchange: Option<Timestamp>,
    /// How far it said that it is, and when.
    asked: Option<(Instant, Frontier)>,
    /// How far it is by its own answers.
    answered: Option<Frontier>,
    problem: Option<String>,
}

impl Peers {
    pub fn ring(&self) {
        self.news.send_modify(|times| *times += 1);
    }

    pub fn listen(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Somebody showed that another gateway knows more: nobody waits for the end of a pause.
    pub fn hurry(&self) {
        self.hurry.send_modify(|times| *times += 1);
    }

    pub fn hurried(&self) -> watch::Receiver<u64> {
        self.hurry.subscribe()
    }

    /// It is shown to it again.
    pub fn tip_from(&self, peer: &NodeName) -> Option<Envelope> {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner).get(peer).cloned()
    }

    /// The caller has checked that it is that gateway's own.
    pub fn keep_tip_from(&self, peer: &NodeName, tip: Envelope) {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner).insert(peer.clone(), tip);
    }

    fn change(&self, peer: &NodeName, act: impl FnOnce(&mut PeerState)) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        act(states.entry(peer.clone()).or_default());
    }

    /// It asked, and said how far it is.
    pub fn asked(&self, peer: &NodeName, frontier: Frontier, now: Timestamp) {
        self.change(peer, |state| {
            state.asked = Some((Instant::now(), frontier));
            state.last_exchange = state.last_exchange.max(Some(now));
        });
        self.heard.send_modify(|times| *times += 1);
    }

    /// It answered, and said how far it is.
    pub fn answered(&self, peer: &NodeName, frontier: Frontier, now: Timestamp) {
        self.change(peer, |state| {
            state.answered = Some(frontier);
            state.last_exchange = state.last_exchange.max(Some(now));
            state.problem = None;
        });
    }

    pub fn failed(&self, peer: &NodeName, why: String) {
        self.change(peer, |state| state.problem = Some(why));
    }

    pub fn forget(&self, kept: impl Fn(&NodeName) -> bool) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).retain(|peer, _| kept(peer));
    }

    /// Everybody who is there has all of this, or the time is over.
    pub async fn wait_for(&self, own: &Frontier, most: Duration) {
        let mut heard = self.heard.subscribe();
        let lacks = || {
            let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            let present = states.values().filter_map(|state| state.asked.as_ref());
            let mut present = present.filter(|(since, _)| since.elapsed() < PRESENT);
            present.any(|(_, frontier)| !frontier.covers_all(own))
        };
        let all_have = async {
            while lacks() {
                if heard.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(most, all_have).await;
    }

    pub fn views(&self, own: &Frontier, peers: impl Iterator<Item = NodeName>) -> Vec<PeerView> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let view = |gateway: NodeName| {
            let state = states.get(&gateway).cloned().unwrap_or_default();
            let mut theirs = state.answered.unwrap_or_default();
            if let Some((_, asked)) = &state.asked {
                theirs.raise(asked);
            }
            PeerView {
                last_exchange: state.last_exchange,
                behind: if state.last_exchange.is_some() { lacking(own, &theirs) } else { 0 },
                ahead: lacking(&theirs, own),
                problem: state.problem,
                gateway,
            }
        };
        peers.map(view).collect()
    }
}

/// How many entries of `more` are not in `less`.
pub(crate) fn lacking(less: &Frontier, more: &Frontier) -> u64 {
    more.0.iter().fold(0, |sum, (voice, place)| sum.saturating_add(place.seq.saturating_sub(less.seq_of(voice))))
}
