//! The nodes: most of them in their long poll, some of them off; and what each last said of its roots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::time::Seconds;
use org::report::TrustTold;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use trials::attack::thief::Thief;
use trials::load::caller::address;
use trials::load::follower::Event;
use trials::load::machine::{AT_ONCE, Dialer, join_all};
use trials::load::rooted::{Habits, Rooted};
use trials::load::taken::fetch;
use trials::place::Place;
use wire::trust::Trust;

/// If nobody says anything for so long, those who are missing are counted as lost.
const SILENCE: Duration = Duration::from_mins(3);
/// An agent's usual wait, and a tenth more or less.
const WAIT: usize = 50;
/// One node of so many is off.
pub const OFF: usize = 20;

/// What is waited for in a node's word about its roots.
pub type Goal = Box<dyn Fn(&TrustTold) -> bool>;

pub struct Followers {
    pub on: BTreeSet<usize>,
    pub off: BTreeMap<usize, Rooted>,
    pub busy: usize,
    /// How often something did not work at first, for each reason.
    pub stumbles: BTreeMap<String, usize>,
    /// Who read the roots of now from anybody, and who got its SVID by its node key.
    pub came_home: BTreeSet<usize>,
    pub returned: BTreeSet<usize>,
    tell: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    tasks: JoinSet<()>,
}

pub fn name(number: usize) -> String {
    format!("n-{number}")
}

impl Followers {
    /// All have joined and said what they are; every twentieth went off again, the others wait for news.
    pub async fn gather(place: &Place, nodes: usize, spread: Duration) -> Self {
        let joined = join_all(place, nodes, name).await;
        let known = Thief::of(place).known();
        let mut caller = Dialer::new(place.port).open(address(nodes)).await;
        let endpoint = fetch(&mut caller, &known).await.unwrap_or_else(|why| panic!("no roots: {why}"));
        let identity = fetch(&mut caller, &known).await.unwrap_or_else(|why| panic!("no roots: {why}"));
        let trust = Trust { endpoint, identity };
        let (tell, events) = unbounded_channel();
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut visiting = JoinSet::new();
        for (node, machine, issued) in joined {
            let habits = Habits {
                node,
                gateway: place.address().parse().unwrap_or_else(|why| panic!("no address: {why}")),
                source: address(node),
                patience: Seconds(u64::try_from(WAIT * (90 + node % 21) / 100).unwrap_or(50)),
                // An agent takes some 256ths of the time, by chance.
                reissue_after: spread * u32::try_from(node * 97 % 256).unwrap_or(0) / 256,
            };
            let rooted = Rooted::new(machine, issued, (known.clone(), trust.clone()), habits);
            let (turns, tell) = (Arc::clone(&turns), tell.clone());
            visiting.spawn(async move {
                let _turn = turns.acquire().await;
                (node, Box::pin(rooted.visit(&tell)).await)
            });
        }
        let (on, off, tasks) = (BTreeSet::new(), BTreeMap::new(), JoinSet::new());
        let (stumbles, came_home, returned) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut followers = Self { on, off, busy: 0, stumbles, came_home, returned, tell, events, tasks };
        while let Some(visited) = visiting.join_next().await {
            let (node, visited) = visited.unwrap_or_else(|why| panic!("a node broke: {why}"));
            let rooted = visited.unwrap_or_else(|why| panic!("`{}` cannot come: {why}", name(node)));
            if node % OFF == OFF - 1 {
                followers.off.insert(node, rooted);
            } else {
                followers.start(node, rooted);
            }
        }
        followers
    }

    fn start(&mut self, node: usize, rooted: Rooted) {
        self.on.insert(node);
        self.tasks.spawn(rooted.follow(self.tell.clone()));
    }

    /// So many of those that are off come back at once. Who they are.
    pub fn bring_back(&mut self, count: usize) -> BTreeSet<usize> {
        let back: BTreeSet<usize> = self.off.keys().copied().take(count).collect();
        for node in &back {
            if let Some(rooted) = self.off.remove(node) {
                self.start(*node, rooted);
            }
        }
        back
    }

    /// Whatever was said before does not count for what comes.
    pub fn forget(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
    }

    /// For each goal, when the gateway had the word of each of these nodes that it is reached.
    pub async fn reach(&mut self, nodes: &BTreeSet<usize>, goals: &[Goal]) -> Vec<BTreeMap<usize, Instant>> {
        let mut reached = vec![BTreeMap::new(); goals.len()];
        while reached.iter().any(|reached| reached.len() < nodes.len()) {
            let Ok(Some(event)) = tokio::time::timeout(SILENCE, self.events.recv()).await else {
                break;
            };
            match event {
                Event::Trusts { node, trust, at } if nodes.contains(&node) => {
                    for (goal, reached) in goals.iter().zip(&mut reached) {
                        if goal(&trust) {
                            reached.entry(node).or_insert(at);
                        }
                    }
                }
                other => self.note(other),
            }
        }
        reached
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Busy => self.busy += 1,
            Event::CameHome { node } => drop(self.came_home.insert(node)),
            Event::Returned { node } => drop(self.returned.insert(node)),
            Event::Stumbled { why, .. } | Event::Ended { why, .. } => *self.stumbles.entry(why).or_default() += 1,
            Event::Took { .. } | Event::Trusts { .. } => {}
        }
    }
}
