//! The nodes: joined with keys of their own, connected from addresses of their own, each in its long poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::id::Digest;
use identity::key::Sign as _;
use identity::principal::NodeName;
use identity::time::Seconds;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use trials::attack::thief::Thief;
use trials::load::caller::address;
use trials::load::follower::{Event, Follower};
use trials::load::machine::{self, AT_ONCE, Machine};
use trials::load::meter::Spread;
use trials::place::Place;
use wire::enroll::Issued;
use wire::known::Known;

use crate::fleet;

/// Nothing that is measured takes this long.
const PATIENCE: Duration = Duration::from_mins(3);
/// An agent's usual wait, and a tenth more or less.
const WAIT: usize = 50;

pub struct Followers {
    /// How many are connected.
    pub count: usize,
    /// What the operator knew when they joined; each node goes on from there by itself.
    pub known: Known,
    /// Whose connection ended, why, and when.
    pub ended: Vec<(String, Instant)>,
    pub busy: usize,
    names: Vec<(NodeName, Digest)>,
    events: UnboundedReceiver<Event>,
    _tasks: JoinSet<()>,
}

/// Machines that joined and came back once: members.
pub async fn join(place: &Place, nodes: usize) -> Vec<(usize, Machine, Issued)> {
    machine::join_all(place, nodes, fleet::name).await
}

impl Followers {
    pub async fn connect(place: &Place, joined: Vec<(usize, Machine, Issued)>) -> Self {
        let known = Thief::of(place).known();
        let (tell, events) = unbounded_channel();
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let (mut tasks, mut opening) = (JoinSet::new(), JoinSet::new());
        let (port, count) = (place.port, joined.len());
        for (number, machine, issued) in joined {
            let (turns, known) = (Arc::clone(&turns), known.clone());
            opening.spawn(async move {
                let _turn = turns.acquire().await;
                let caller = machine.come_back(port, address(number), &issued).await;
                let patience = WAIT * (90 + number % 21) / 100;
                let name = (machine.name().clone(), machine.node_key().public().digest());
                let patience = Seconds(u64::try_from(patience).unwrap_or(50));
                (name, Follower::new(machine, caller, (known, issued.tip), patience))
            });
        }
        let mut names = Vec::new();
        while let Some(opened) = opening.join_next().await {
            let (name, follower) = opened.unwrap_or_else(|why| panic!("a node could not connect: {why}"));
            names.push(name);
            let tell: UnboundedSender<Event> = tell.clone();
            tasks.spawn(follower.follow(tell));
        }
        let followers = Self { count, known, ended: Vec::new(), busy: 0, names, events, _tasks: tasks };
        // Each tells what it is, and waits.
        followers.settle(place, followers.known.head.head.version).await;
        followers
    }

    /// One that is still connected.
    pub fn victim(&mut self) -> (NodeName, Digest) {
        self.names.pop().unwrap_or_else(|| panic!("nobody is left"))
    }

    /// Waits until every node holds the head and what belongs to it.
    pub async fn all_have(&mut self, version: u64, sent: Instant) -> Spread {
        let mut took = Vec::with_capacity(self.count);
        while took.len() < self.count {
            match self.next().await {
                Event::Took { head, at } if head == version => took.push(at),
                other => self.note(other),
            }
        }
        Spread::since(sent, took)
    }

    /// Waits until the gateway's disk has a report about this head of every node; the moment at which it was seen.
    pub async fn settle(&self, place: &Place, version: u64) -> Option<Instant> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = rusqlite::Connection::open_with_flags(place.org().join("gateway/ledger.db"), flags).ok()?;
        let begun = Instant::now();
        let wanted = i64::try_from(self.count).ok()?;
        while begun.elapsed() < PATIENCE {
            let count = "SELECT count(*) FROM reports WHERE head = ?1";
            let have: i64 = db.query_row(count, [i64::try_from(version).ok()?], |row| row.get(0)).ok()?;
            if have >= wanted {
                return Some(Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    async fn next(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event.ok().flatten().unwrap_or_else(|| {
            panic!("waited in vain for {} nodes; {} ended: {:?}", self.count, self.ended.len(), self.ended.first())
        })
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Busy => self.busy += 1,
            Event::Ended { why, at } => self.ended.push((why, at)),
            Event::Took { .. }
            | Event::Trusts { .. }
            | Event::CameHome { .. }
            | Event::Returned { .. }
            | Event::Stumbled { .. } => {}
        }
    }
}
