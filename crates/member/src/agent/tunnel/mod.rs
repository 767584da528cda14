//! The tunnel in an agent's day: its process runs while there is something to carry, and goes by what this node knows.

pub mod view;
pub(crate) mod feed;
pub(crate) mod gather;
pub(crate) mod child;
pub(crate) mod hear;
pub(crate) mod meet;
pub(crate) mod listens;
pub(crate) mod account;
pub(crate) mod attend;
pub(crate) mod supervise;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::id::Digest;
use identity::time::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tunnel::control::question::{
    CallOutcome, CallerIdentity, ProbedWay, ServiceConnection, TunnelAnswer, TunnelQuestion,
};
use wire::known::{BadKnowledge, Known};
use wire::peer::News;

use self::feed::Orders;
use self::supervise::Supervisor;
use self::view::{PeersPort, TunnelView};
use crate::agent::{Agent, AgentError};
use crate::ask::error::AskError;
use crate::ask::keep::{keep_the_rest, save_authority};
use crate::store::scope::Scope;
use crate::store::suspensions;
use crate::store::tunnel::Met;

/// Whoever only looks does not wait longer for the process.
const SHOW_TIME: Duration = Duration::from_secs(2);
/// Every way to a service is tried, one after the other.
const REACH_TIME: Duration = Duration::from_mins(1);

/// What the supervising task is told.
#[derive(Debug)]
pub(crate) enum TunnelWish {
    /// Answered when it is in force, or when nothing is open.
    Follow(Option<Box<Orders>>, oneshot::Sender<()>),
    Ask(TunnelQuestion, oneshot::Sender<TunnelAnswer>),
}

/// The agent's hold on the tunnel: when it is dropped, the process ends.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub desk: TunnelDesk,
    task: AbortHandle,
    /// By what the orders were made last; nothing if they are to be made anew in any case.
    fed: Option<Fed>,
}

/// What can change without an exchange.
#[derive(Debug, PartialEq, Eq)]
struct Fed {
    obeyed: Option<Digest>,
    guard: Option<Digest>,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where others in this process ask about the tunnel.
#[derive(Debug, Clone)]
pub struct TunnelDesk {
    wishes: mpsc::Sender<TunnelWish>,
    view: Arc<Mutex<TunnelView>>,
    met: Arc<Mutex<Met>>,
}

/// With it come the news that peers told, each of them verified and new when it was told.
pub(crate) fn begin(scope: Scope) -> (Tunnel, mpsc::Receiver<News>) {
    let (wishes, to_do) = mpsc::channel(16);
    let (heard, news) = mpsc::channel(4);
    let met = Arc::new(Mutex::new(Met::load(&scope)));
    let desk = TunnelDesk { wishes, view: Arc::default(), met: Arc::clone(&met) };
    let supervisor = Supervisor::new(scope, to_do, heard, Arc::clone(&desk.view), met);
    let task = tokio::spawn(supervisor.run()).abort_handle();
    (Tunnel { desk, task, fed: None }, news)
}

impl TunnelDesk {
    /// As the process says now, if it answers.
    pub async fn view(&self) -> TunnelView {
        let now = match self.ask(TunnelQuestion::View, SHOW_TIME).await {
            Some(TunnelAnswer::View(now)) => Some(now),
            _ => None,
        };
        TunnelView { now, ..self.view.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    pub async fn caller(&self, connection: ServiceConnection) -> Option<CallerIdentity> {
        match self.ask(TunnelQuestion::Caller(connection), SHOW_TIME).await {
            Some(TunnelAnswer::Caller(caller)) => caller,
            _ => None,
        }
    }

    /// Nothing if the process does not run.
    pub async fn reach(&self, question: TunnelQuestion) -> Option<Vec<ProbedWay>> {
        match self.ask(question, REACH_TIME).await {
            Some(TunnelAnswer::Reach(ways)) => Some(ways),
            _ => None,
        }
    }

    /// Nothing if the process does not run.
    pub async fn call(&self, question: TunnelQuestion) -> Option<CallOutcome> {
        match self.ask(question, REACH_TIME).await {
            Some(TunnelAnswer::Call(called)) => Some(called),
            _ => None,
        }
    }

    async fn ask(&self, question: TunnelQuestion, time: Duration) -> Option<TunnelAnswer> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.wishes.send(TunnelWish::Ask(question, answer)).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(time, asked).await.ok().flatten()
    }

    async fn follow(&self, orders: Option<Orders>) {
        let (done, is_done) = oneshot::channel();
        if self.wishes.send(TunnelWish::Follow(orders.map(Box::new), done)).await.is_ok() {
            let _ = is_done.await;
        }
    }
}

impl Agent {
    /// What is on trial does not stay on a port that is only hoped for.
    pub(super) fn check_peers_port(&mut self) {
        let unreached = match self.peers_port() {
            PeersPort::Had => None,
            PeersPort::Awaited => Some("the tunnel has not said yet that it listens for other nodes".to_owned()),
            PeersPort::Missing(why) => Some(why),
        };
        self.engine.note_unreached(unreached);
    }

    fn peers_port(&self) -> PeersPort {
        let view = self.tunnel.desk.view.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.current().map_or(PeersPort::Had, |manifest| view.peers_port(&manifest.runs))
    }

    /// Whatever was taken since is handed to the tunnel. When this ends, nothing is open there that it forbids.
    pub(super) async fn feed_tunnel(&mut self) {
        let guard = self.engine.standing().guard().map(|item| item.digest);
        let by = Fed { obeyed: self.engine.obeyed(), guard };
        if self.tunnel.fed.as_ref() == Some(&by) {
            return;
        }
        let met = self.tunnel.desk.met.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let orders = gather::orders(&self.scope, &self.node, &self.engine, &met).unwrap_or_else(|why| {
            tracing::error!(why = describe(&why), "what the tunnel should go by cannot be read: it carries nothing");
            None
        });
        self.tunnel.desk.follow(orders).await;
        self.tunnel.fed = Some(by);
    }

    /// Something was exchanged, renewed or tried: all that the tunnel goes by is looked at again.
    pub(super) async fn feed_tunnel_anew(&mut self) {
        self.tunnel.fed = None;
        self.feed_tunnel().await;
    }

    /// What a peer told: taken as if a gateway had said it, authority alone.
    pub(super) fn take_news(&mut self, news: &News) -> Result<(), AgentError> {
        match heed(&self.scope, news) {
            Ok(Some(known)) => {
                tracing::info!(
                    head = known.head.head.version,
                    "a peer told of a newer head, of other signers, or of a suspension"
                );
                // What the open connection knows is less.
                (self.line, self.tunnel.fed) = (None, None);
                self.read_suspensions();
                self.learn(&known);
                self.tell(|status| status.head = known.head.head.version);
                if matches!(self.check_own_key(&known), Err(AskError::Revoked)) {
                    self.tell(|status| "revoked".clone_into(&mut status.state));
                    return Err(AgentError::Revoked);
                }
            }
            Ok(None) => {}
            Err(why) => tracing::error!(why = describe(&why), "what a peer told could not be taken"),
        }
        Ok(())
    }
}

/// On disk before it is believed. Nothing if it was known before.
fn heed(scope: &Scope, news: &News) -> Result<Option<Known>, AskError> {
    let known = scope.known()?.ok_or(AskError::NotJoined)?;
    let now = known.now(clock::now());
    let newer = advance(&known, news, now);
    // One signer's word needs no head, and counts also where the head does not.
    let is_stopped = suspensions::take(scope, newer.as_ref().unwrap_or(&known), &news.suspensions)?;
    match newer {
        Ok(newer) if newer.says_more_than(&known) => {
            save_authority(scope, &newer)?;
            Ok(Some(newer))
        }
        Ok(_) => Ok(is_stopped.then_some(known)),
        Err(why) => {
            let is_taken = keep_the_rest(scope, &known, &why, &news.beside(), now)?;
            if is_stopped || is_taken { Ok(scope.known()?) } else { Err(AskError::Knowledge(why)) }
        }
    }
}

fn advance(known: &Known, news: &News, now: Timestamp) -> Result<Known, BadKnowledge> {
    known.told(&news.signers, news.head.as_ref(), &news.rivals, now)
}

/// Would it change anything, by what is on disk? An error says why it does not hold.
fn is_news(scope: &Scope, news: &News) -> Result<bool, AskError> {
    let known = scope.known()?.ok_or(AskError::NotJoined)?;
    let now = known.now(clock::now());
    let newer = advance(&known, news, now);
    let by = newer.as_ref().unwrap_or(&known);
    if suspensions::load(&scope.folder).take(by.heeded(&news.suspensions, now), &by.signers, now) {
        return Ok(true);
    }
    match newer {
        Ok(newer) => Ok(newer.says_more_than(&known)),
        // A recovery that was not seen here before counts from now on.
        Err(why) if known.heed(&why, now).is_some() => Ok(true),
        Err(_) if known.hear(&news.beside(), now).is_some() => Ok(true),
        Err(why) => Err(AskError::Knowledge(why)),
    }
}

#[cfg(test)]
mod tests {
    use identity::head::Head;
    use identity::signers::{SignerSet, Succession};

    use super::*;
    use crate::scene::{self, quorum, sealed};

    #[test]
    fn a_second_successor_that_a_peer_tells_of_freezes_this_node_and_is_news_once() {
        let (_root, scope) = scene::scope();
        let founding = scene::founding();
        let (first, known) = (founding.first_signers(), scene::known(&founding, &scene::head(&founding)));
        let by = |next: &str| {
            let body =
                Succession { version: 2, previous: first.id, also: Vec::new(), quorum: quorum(next), head: None };
            let step = sealed(&founding, &body, "ann");
            let set = SignerSet::later(founding.id, 2, body.quorum);
            let head = Head { version: 2, signers: set.as_ref(), ..known.head.head.clone() };
            let head = Some(sealed(&founding, &head, next));
            News { signers: vec![step], head, rivals: Vec::new(), suspensions: Vec::new() }
        };
        scope.save_known(&known).unwrap();
        assert_eq!(heed(&scope, &by("ben")).unwrap().unwrap().signers.version, 2);
        assert!(is_news(&scope, &by("eve")).unwrap());
        let frozen = heed(&scope, &by("eve")).unwrap().unwrap();
        assert_eq!(frozen.rivals(frozen.now(clock::now())).len(), 2);
        assert!(scope.known().unwrap().unwrap().frozen(frozen.now(clock::now())).is_some());
        assert!(is_news(&scope, &by("eve")).is_err());
    }
}
