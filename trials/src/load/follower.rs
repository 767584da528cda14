//! A connected machine that follows the head: it waits for news, checks them as an agent does, and reports.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

use ground::clock;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::Said;
use identity::time::Seconds;
use manifest::stored::{Manifest, SCHEMA};
use org::refusal::Refusal;
use org::report::{Applied, Mark, Report, TrustTold};
use tokio::sync::mpsc::UnboundedSender;
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::{SyncAnswer, SyncRequest};

use crate::load::caller::Caller;
use crate::load::machine::Machine;

/// What a follower says of itself to whoever measures.
#[derive(Debug)]
pub enum Event {
    /// It holds this head, checked, with its listing and its manifest.
    Took { head: u64, at: Instant },
    /// The gateway has its word that it goes by these roots, and that its SVID leads to these.
    Trusts { node: usize, trust: Box<TrustTold>, at: Instant },
    /// No gateway was known by its root any more: it read the roots of now from whoever answered, and checked them.
    CameHome { node: usize },
    /// Its SVID led to no trusted root any more: it got another by its node key.
    Returned { node: usize },
    /// Something did not work; it tries again.
    Stumbled { node: usize, why: String },
    /// The gateway was too busy; it asks again.
    Busy,
    /// The connection ended, or the gateway refused; it asks no more.
    Ended { why: String, at: Instant },
}

/// How long it rests after it was told that the gateway is busy.
const REST: Duration = Duration::from_secs(1);

/// What a machine has heard so far.
#[derive(Debug)]
pub struct Hearing {
    pub(crate) machine: Machine,
    own_key: Digest,
    pub(crate) known: Known,
    /// The head for which it knows how it is listed.
    pub(crate) listed: u64,
    have: Option<Digest>,
    pub(crate) tip: Envelope,
}

#[derive(Debug)]
pub struct Follower {
    hearing: Hearing,
    caller: Caller,
    /// How long it lets the gateway wait for news.
    patience: Seconds,
}

impl Follower {
    pub fn new(machine: Machine, caller: Caller, (known, tip): (Known, Envelope), patience: Seconds) -> Self {
        Self { hearing: Hearing::new(machine, known, tip), caller, patience }
    }

    /// Until the connection ends.
    pub async fn follow(mut self, tell: UnboundedSender<Event>) {
        let mut told = 0;
        loop {
            let version = self.hearing.known.head.head.version;
            // What it has to say goes with the question that waits.
            let report = (told != version).then(|| self.hearing.report(None));
            match self.hearing.ask(&mut self.caller, self.patience, report).await {
                Ok(Ok(answer)) => {
                    told = version;
                    self.hearing.take(answer);
                    let newer = self.hearing.known.head.head.version;
                    if newer != version {
                        let _ = tell.send(Event::Took { head: newer, at: Instant::now() });
                    }
                }
                Ok(Err(Refusal::Busy { .. })) => {
                    let _ = tell.send(Event::Busy);
                    tokio::time::sleep(REST).await;
                }
                Ok(Err(refusal)) => return drop(tell.send(ended(&refusal))),
                Err(why) => return drop(tell.send(ended(&why))),
            }
        }
    }
}

impl Hearing {
    pub fn new(machine: Machine, known: Known, tip: Envelope) -> Self {
        let own_key = machine.node_key().public().digest();
        Self { machine, own_key, known, listed: 0, have: None, tip }
    }

    pub(crate) async fn ask(
        &self,
        caller: &mut Caller,
        wait: Seconds,
        report: Option<Envelope>,
    ) -> std::io::Result<Result<SyncAnswer, Refusal>> {
        let question = SyncRequest {
            signers: self.known.signers.version,
            head: self.known.head.head.version,
            digest: None,
            rivals: None,
            listed: self.listed,
            have: self.have.into_iter().collect(),
            waits_for: None,
            sighted: Vec::new(),
            suspended: None,
            tip: Some(self.tip.clone()),
            wait,
            report,
        };
        let patience = Duration::from_secs(wait.0) + Duration::from_mins(1);
        let late = |_| Error::new(ErrorKind::TimedOut, "no answer");
        tokio::time::timeout(patience, caller.ask(Ask::Sync, &question)).await.map_err(late)?
    }

    /// Checks all of it: signers and head against what is known, the path to the own leaf, the manifest.
    pub(crate) fn take(&mut self, answer: SyncAnswer) {
        let known = self.known.advance(&answer.signers, answer.head.as_ref(), clock::now()).unwrap();
        if let Some(listing) = &answer.listing {
            let root = known.head.head.members.unwrap();
            let named = match listing.check(root, self.machine.name(), self.own_key).unwrap() {
                Said::Manifest(digest) => Some(digest),
                Said::Nothing | Said::NoWord => None,
            };
            if let Some(digest) = named {
                match answer.manifest {
                    Some(bytes) => drop(Manifest::read(&bytes.0, digest).unwrap()),
                    None => assert_eq!(self.have, Some(digest), "a manifest is named and was not sent"),
                }
            }
            self.have = named;
            self.listed = known.head.head.version;
        }
        self.known = known;
        self.tip = answer.tip;
    }

    pub(crate) fn report(&self, trust: Option<TrustTold>) -> Envelope {
        let node_key = self.machine.node_key();
        let report = Report {
            node: self.machine.name().clone(),
            node_key: node_key.public(),
            at: clock::now(),
            head: Mark { version: self.known.head.head.version, digest: self.known.head.digest },
            schema: SCHEMA,
            applied: self.have.map_or(Applied::Nothing, |manifest| Applied::Settled { manifest }),
            refused: None,
            agent: "0.1.0".to_owned(),
            trust,
            left: None,
            beside: None,
            programs: Vec::new(),
        };
        Envelope::seal(Some(self.known.org()), &report).unwrap().signed(node_key).unwrap()
    }
}

fn ended(why: &dyn std::fmt::Display) -> Event {
    Event::Ended { why: why.to_string(), at: Instant::now() }
}
