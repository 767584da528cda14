//! The agent: waits for news, applies them, renews, answers `status`, until it is told to stop.

pub(crate) mod trouble;
pub mod tunnel;
pub mod metrics;
pub mod status;
pub mod lasting;
pub mod errand;
pub mod socket;
pub(crate) mod told;
pub(crate) mod schedule;
pub(crate) mod gateways;
pub(crate) mod trust;
pub(crate) mod placed;
pub(crate) mod suspended;
pub(crate) mod hear;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::file::Lock;
use ground::{clock, random};
use identity::causes::describe;
use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use identity::time::{Seconds, Timestamp};
use org::refusal::Refusal;
use tokio::sync::{mpsc, watch};
use wire::connect::clocks::Clocks;
use wire::connect::{AlertKind, Believed, CallError, GatewayAddress};
use wire::known::Known;
use wire::peer::News;

use crate::agent::errand::{AgentHandle, Asked};
use crate::agent::gateways::Gateways;
use crate::agent::hear::Offers;
use crate::agent::metrics::Tally;
use crate::agent::placed::programs::Programs;
use crate::agent::schedule::{Action, Event, Exchange, Look, Schedule, life};
use crate::agent::status::NodeStatus;
use crate::agent::suspended::Stop;
use crate::agent::told::Reports;
use crate::agent::trouble::{is_lie, trouble};
use crate::agent::trust::Seen;
use crate::apply::engine::{ApplyError, Engine};
use crate::apply::trial::Outcome;
use crate::ask::call::is_revoked;
use crate::ask::error::AskError;
use crate::ask::renew::{self, Wanted};
use crate::ask::source::Source;
use crate::ask::sync;
use crate::store::scope::{NodeFile, Scope, ScopeError};
use crate::store::{damage, suspensions};

#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// It lets a gateway keep it waiting for news no longer than this.
    pub check_in_every: Seconds,
    /// Other ways to gateways, tried before the node's own list.
    pub tried_first: Option<Vec<GatewayAddress>>,
    /// A static tree, read instead of asking gateways. They are still asked for what a tree cannot give: the
    /// confirmation of a trial.
    pub from: Option<Source>,
    /// Where it counts what it does.
    pub tally: Arc<Tally>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { check_in_every: Seconds::MINUTE, tried_first: None, from: None, tally: Arc::default() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("this machine is not a member yet")]
    NotJoined,
    #[error("another agent already runs for this scope")]
    AlreadyRunning,
    #[error("this machine's key was revoked by the operators; it can do nothing more here")]
    Revoked,
    #[error("this machine left the org")]
    Left,
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("what this node should be cannot be read from its disk")]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    NoRandomness(#[from] random::NoRandomness),
}

/// The clock is looked at this often: after a sleep, what is due is done at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs until `stop`, or until the operators revoked this machine.
pub async fn run(scope: Scope, options: AgentOptions, stop: watch::Receiver<bool>) -> Result<(), AgentError> {
    Box::pin(Ready::prepare(scope, options)?.run(stop)).await
}

/// An agent that has its scope to itself, and is about to run.
#[derive(Debug)]
pub struct Ready {
    agent: Agent,
    handle: AgentHandle,
    errands: mpsc::Receiver<Asked>,
    news: mpsc::Receiver<News>,
    _lock: Lock,
}

impl Ready {
    pub fn prepare(scope: Scope, options: AgentOptions) -> Result<Self, AgentError> {
        let node = scope.node()?.ok_or(AgentError::NotJoined)?;
        let lock = scope.lock()?.ok_or(AgentError::AlreadyRunning)?;
        damage::forget(&scope);
        let status = Arc::new(Mutex::new(NodeStatus::from_disk(&scope)?));
        let (tunnel, news) = tunnel::begin(scope.clone());
        let (handle, errands) = errand::handle(Arc::clone(&status), tunnel.desk.clone());
        let [jitter] = random::bytes::<1>()?;
        options.tally.starts_from(&scope)?;
        let engine = Engine::open(&scope.folder, clock::now())?;
        let offers = Offers::read(&scope)?;
        let known = scope.known()?;
        let care = known.as_ref().map(|known| Agent::start_trust(&scope, known)).transpose()?.unwrap_or_default();
        let head = known.as_ref().map(|known| &known.head.head);
        let stop = Stop::read(&scope)?;
        let agent = Agent {
            gateways: Gateways::of(head, scope.last_good()?),
            schedule: Schedule::new(options.check_in_every, jitter),
            scope,
            node,
            options,
            engine,
            trust: care,
            tunnel,
            line: None,
            offers,
            reports: Reports::default(),
            damaged: BTreeSet::new(),
            programs: Programs::default(),
            asked_for_proof: false,
            errand: None,
            stop,
            status,
        };
        Ok(Self { agent, handle, errands, news, _lock: lock })
    }

    /// Where it is asked for things while it runs.
    pub fn handle(&self) -> AgentHandle {
        self.handle.clone()
    }

    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), AgentError> {
        self.agent.serve_programs();
        let _socket = socket::answer(&self.agent.scope, self.handle.clone());
        loop {
            let idle = self.agent.errand.is_none();
            // Whatever is cut off here is taken up again: what was asked for is on disk until it is there.
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                Some(asked) = self.errands.recv(), if idle => self.agent.take_errand(asked),
                Some(news) = self.news.recv() => self.agent.take_news(&news)?,
                looked = Box::pin(self.agent.look()) => looked?,
            }
        }
    }
}

#[derive(Debug)]
struct Agent {
    scope: Scope,
    node: NodeFile,
    options: AgentOptions,
    gateways: Gateways,
    /// What it does next, and when.
    schedule: Schedule,
    /// What this node should be, and what it is.
    engine: Engine,
    /// Which roots it goes by.
    trust: trust::Care,
    /// What carries streams for the services and users here.
    tunnel: tunnel::Tunnel,
    line: Option<Line>,
    offers: Offers,
    reports: Reports,
    /// Whose SVIDs were told to be damaged.
    damaged: BTreeSet<Principal>,
    programs: Programs,
    /// The last renewal brought no proof of having joined.
    asked_for_proof: bool,
    /// What somebody here waits for.
    errand: Option<Asked>,
    /// Whether a signer has stopped this machine.
    stop: Stop,
    status: Arc<Mutex<NodeStatus>>,
}

/// An open mTLS connection, with what was known when it was last used.
#[derive(Debug)]
struct Line {
    gateway: Believed,
    known: Known,
    /// What was obeyed when it was made.
    under: Option<Digest>,
    /// The gateway that came first then.
    first: Option<NodeName>,
    /// The marks of the heads beside that one, and of the suspensions, that were known then, or that the gateway has told of since.
    rivals: Option<Digest>,
    suspended: Option<Digest>,
    /// Something was asked over it, and answered.
    used: bool,
}

impl Agent {
    /// Does what is due, or rests for a moment.
    async fn look(&mut self) -> Result<(), AgentError> {
        let now = clock::now();
        self.check_peers_port();
        if self.engine.tick(now) == Outcome::WentBack {
            // What kept it from a gateway may be gone with it.
            self.schedule.note(Event::Roused, now);
        }
        self.tick_trust();
        self.show_suspended();
        self.feed_tunnel().await;
        self.show_applied();
        let source = self.source();
        let look = Look { tree: source.is_some(), urged: self.errand.is_some() };
        if self.schedule.note(Event::Look(look), now) == Action::Rest {
            // Checks that end are heard of at once.
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.engine.checks_ended() => {}
            }
            return Ok(());
        }
        let rested = self.line.is_some();
        let mut kept_up = self.keep_up_in_time(source.as_ref(), now).await;
        if source.is_none() && rested && matches!(kept_up, Err(AskError::Call(CallError::BrokenOff { .. }))) {
            // A connection that ended while it rested is no failure: once more, on a new one.
            kept_up = self.keep_up_in_time(None, now).await;
        }
        // What was taken before something failed is so.
        self.heal();
        self.serve_programs();
        self.read_suspensions();
        self.feed_tunnel_anew().await;
        let failed = kept_up.as_ref().err().map(|why| describe(why));
        match kept_up {
            Ok((known, apart)) => {
                self.options.tally.checked_in(now);
                self.options.tally.knows(&known);
                let frozen = known.frozen(known.now(now)).is_some();
                self.schedule.note(Event::Exchanged(Exchange { tree: source.is_some(), frozen }), clock::now());
                let refused = self.offers.refused().map(|refused| refused.why.clone());
                let problem = self.stop.now().map(ToString::to_string).or(refused);
                let problem = problem.or_else(|| self.trust_problem()).or(apart).or_else(|| trouble(&known, now));
                self.tell(|status| {
                    status.head = known.head.head.version;
                    status.last_check_in = Some(now);
                    status.problem.clone_from(&problem);
                });
                if let Some(problem) = problem {
                    tracing::error!("{problem}");
                }
            }
            Err(why) => self.cope(why, now).await?,
        }
        self.report_back(failed);
        Ok(())
    }

    /// Whoever says nothing, or slowly, does not keep this node beyond the end of a trial.
    async fn keep_up_in_time(
        &mut self,
        source: Option<&Source>,
        now: Timestamp,
    ) -> Result<(Known, Option<String>), AskError> {
        let left = self.engine.view().trial.map(|trial| Duration::from_secs(trial.deadline.since(now).0.max(1)));
        let kept_up = Box::pin(async {
            match source {
                Some(source) => Box::pin(self.hear_tree(source)).await,
                None => Box::pin(self.keep_up()).await,
            }
        });
        match left {
            None => kept_up.await,
            Some(left) => tokio::time::timeout(left, kept_up).await.unwrap_or(Err(AskError::OutOfTime)),
        }
    }

    async fn keep_up(&mut self) -> Result<(Known, Option<String>), AskError> {
        let principal = self.node.principal();
        let seat = self.scope.seat(&principal);
        if self.schedule.svid_is_refused() || self.needs_to_come_back(seat.svid()?.as_ref())? {
            self.line = None;
            self.tell_damage(&principal);
            renew::come_back(&self.scope, &self.node, &self.gateways()).await?;
            self.options.tally.renewals.fetch_add(1, Ordering::Relaxed);
            self.schedule.note(Event::CameBack, clock::now());
            tracing::info!("came back: the SVID was not good at this time, or not by what the operators say now");
        }
        // First what is known is compared, then something is asked for.
        let mut line = self.open_line().await?;
        let apart = self.hear(&mut line).await?;
        self.check_own_key(&line.known)?;
        self.keep_trust(&mut line).await;
        let svid = seat.svid()?;
        let now = line.known.now(clock::now());
        let seen = Seen::by(&self.scope, &line, now)?;
        if let Some(svid) = &svid
            && trust::makes_outdated(&seen.judge(&line.known, svid, now))
        {
            // Its root is retired, or its issuer has no mandate any more: the node key gets another, at once.
            self.schedule.note(Event::SvidRefused, now);
            return Ok((line.known, apart));
        }
        self.read_suspensions();
        let is_stopped = self.stop.now().is_some();
        if !is_stopped && let Err(why) = self.renew_placed(&mut line, &seen).await {
            tracing::warn!(problem = describe(&why), "an SVID of a user or service here was not renewed");
        }
        if !self.node.joined {
            self.node = NodeFile { joined: true, ..self.scope.node()?.unwrap_or_else(|| self.node.clone()) };
            self.scope.save_node(&self.node)?;
        }
        let now = line.known.now(clock::now());
        let due = svid.as_ref().is_some_and(|svid| self.schedule.renews(&life(svid), now));
        let more =
            !is_stopped && svid.as_ref().is_some_and(|svid| self.wants_more_roots(&principal, svid, &line, &seen, now));
        self.reissued(now);
        let due = !is_stopped && (more || due || self.wants_proof());
        if due {
            let none = BTreeSet::new();
            let wanted = Wanted { principal: &principal, dns: &none, life: self.svid_life() };
            renew::renew(&self.scope, &self.node, wanted, &mut line.gateway, &line.known).await?;
            self.options.tally.renewals.fetch_add(1, Ordering::Relaxed);
            self.asked_for_proof = renew::lacks_proof(&self.scope);
            tracing::info!("renewed the SVID");
        }
        let known = line.known.clone();
        self.learn(&known);
        // The new SVID goes with a new connection.
        self.line = (!due).then_some(line);
        let good = seat.svid()?.as_ref().map(life);
        self.schedule.note(Event::SvidRead { good, renewed: due }, now);
        self.show_standing()?;
        Ok((known, apart))
    }

    /// As it is on disk now.
    fn show_standing(&self) -> Result<(), AskError> {
        let fresh = NodeStatus::from_disk(&self.scope)?;
        self.options.tally.has_svid(fresh.svid_expires_at, self.schedule.renew_at());
        self.tell(|status| {
            status.svid_expires_at = fresh.svid_expires_at;
            status.state = fresh.state;
            status.trust = fresh.trust;
        });
        Ok(())
    }

    /// How long a gateway may keep this node waiting.
    fn patience(&self, now: Timestamp) -> Seconds {
        let policy = self.engine.current().map(|manifest| manifest.runs.sync).unwrap_or_default();
        let stopped = self.stop.now().map(|stop| stop.until);
        let wake = [self.reissue_at(), self.engine.next_wake(now), stopped].into_iter().flatten().min();
        let on_trial = self.engine.is_on_trial() || self.trust_is_on_trial();
        self.schedule.patience(policy.wait, wake, on_trial, now)
    }

    fn svid_life(&self) -> Option<Seconds> {
        self.engine.current().and_then(|manifest| manifest.runs.svid_life)
    }

    fn show_applied(&self) {
        let (view, gateways) = (self.engine.view(), self.gateways());
        self.options.tally.applies(&view);
        self.tell(|status| {
            status.applied = view;
            status.refused = self.offers.refused().cloned();
            status.gateways = gateways.into_iter().map(|gateway| gateway.address).collect();
        });
    }

    async fn open_line(&mut self) -> Result<Line, AskError> {
        let by = self.gateways();
        match self.line.take() {
            Some(line) if self.stays(&line, &by) => Ok(line),
            Some(_) | None => {
                let line = self.dial(&by).await?;
                // What it said may be that it is to be found elsewhere.
                if self.goes_elsewhere(&line) { self.dial(&self.gateways()).await } else { Ok(line) }
            }
        }
    }

    async fn dial(&mut self, by: &[GatewayAddress]) -> Result<Line, AskError> {
        let (gateway, known) = sync::connect(&self.scope, by).await?;
        self.offers.forget_listing();
        let first = self.gateways.first().cloned();
        self.remember_good(gateway.address().clone());
        self.learn(&known);
        let (rivals, suspended) = (known.mark(), suspensions::mark(&self.scope));
        Ok(Line { gateway, known, under: self.engine.obeyed(), first, rivals, suspended, used: false })
    }

    fn check_own_key(&self, known: &Known) -> Result<(), AskError> {
        use identity::key::Sign as _;
        let key = self.scope.node_key()?.public().digest();
        if known.head.head.revocations.node_keys.contains(&key) { Err(AskError::Revoked) } else { Ok(()) }
    }

    /// Something failed: say so, and wait longer each time. Only a signed head ends the agent.
    async fn cope(&mut self, why: AskError, now: Timestamp) -> Result<(), AgentError> {
        self.line = None;
        if is_lie(&why) {
            self.refuse(now, Timestamp::from_unix(0), &describe(&why));
        }
        self.options.tally.failed(&why);
        let doubted = matches!(
            &why,
            AskError::Call(
                CallError::NotAccepted { alert: AlertKind::Other, .. }
                    | CallError::Refused(Refusal::NotPermitted { .. })
            )
        );
        // Operators may want SVIDs to live shorter, or by another issuer: the node key gets a new one.
        if doubted
            && !self.schedule.svid_is_refused()
            && renew::is_outdated(&self.scope, &self.node, &self.gateways()).await.unwrap_or(false)
        {
            self.schedule.note(Event::SvidRefused, now);
        }
        let revoked = match &why {
            AskError::Revoked => true,
            AskError::Call(
                CallError::NotAccepted { alert: AlertKind::Revoked, .. }
                | CallError::Refused(Refusal::KeyRevoked)
                | CallError::BrokenOff { .. },
            ) => self.is_revoked_for_certain().await,
            _ => false,
        };
        // Only a signed head, or this machine's own disk, ends the agent; a refusal is but a word.
        if !self.scope.path("node.key").exists() {
            return Err(AgentError::Left);
        }
        if revoked {
            self.tell(|status| "revoked".clone_into(&mut status.state));
            return Err(AgentError::Revoked);
        }
        self.schedule.note(Event::Failed, now);
        let wait = self.schedule.backoff();
        let cure = why.clocks().map(Clocks::cure);
        let hint = cure.or_else(|| why.refusal().and_then(Refusal::hint).map(str::to_owned));
        // What was taken before it failed is so, and a head that grew old meanwhile is no smaller matter.
        let known = self.scope.known().ok().flatten();
        let stale = known.as_ref().and_then(|known| trouble(known, now));
        let problem: Vec<_> = [describe(&why)].into_iter().chain(hint).chain(stale).collect();
        let problem = problem.join("; ");
        tracing::warn!(problem, retry_in = %wait, "could not check in");
        self.tell(|status| {
            status.head = known.map_or(status.head, |known| known.head.head.version);
            status.problem = Some(problem.clone());
        });
        Ok(())
    }

    /// A refusal is only a word; the signed head, which any stranger may read, decides.
    async fn is_revoked_for_certain(&self) -> bool {
        let gateways = self.gateways();
        is_revoked(&self.scope, &gateways).await.unwrap_or(false)
    }

    fn tell(&self, change: impl FnOnce(&mut NodeStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
