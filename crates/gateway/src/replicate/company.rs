//! Keeps company with every other gateway: one conversation with each, and a new one after trouble.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ground::{clock, random};
use identity::causes::describe;
use identity::principal::NodeName;
use member::store::scope::Scope;
use tokio::task::JoinHandle;
use wire::connect::Gateway as Door;

use crate::gateway::Gateway;
use crate::replicate::fetch;
use crate::replicate::mesh::{doors_of, exchange};

/// So often it is looked whom there is to exchange with.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The machine's own scope is looked at once in so many times.
const SCOPE_EVERY: u64 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runs until it is dropped. One conversation for each other gateway.
pub async fn keep(gateway: Arc<Gateway>, scope: Scope) {
    let mut talks: BTreeMap<NodeName, Talking> = BTreeMap::new();
    let mut later = BTreeMap::new();
    for nth in 0_u64.. {
        // What only this machine's own scope knows is looked up now and then.
        if nth.is_multiple_of(SCOPE_EVERY) {
            later = others(&gateway, Some(&scope));
        }
        let mut others = others(&gateway, None);
        for (peer, doors) in &later {
            others.entry(peer.clone()).or_insert_with(|| doors.clone());
        }
        talks.retain(|peer, _| others.contains_key(peer));
        gateway.peers.forget(|peer| others.contains_key(peer));
        for (peer, doors) in others {
            let same = talks.get(&peer).is_some_and(|talk| talk.doors == doors);
            if !same {
                let with = || (Arc::clone(&gateway), scope.clone(), peer.clone(), doors.clone());
                let (talk, files) = (with(), with());
                let running = [
                    tokio::spawn(self::talk(talk.0, talk.1, talk.2, talk.3)),
                    tokio::spawn(fetch::keep(files.0, files.1, files.2, files.3)),
                ];
                talks.insert(peer, Talking { doors, running });
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

struct Talking {
    doors: Vec<Door>,
    /// Entries, and files.
    running: [JoinHandle<()>; 2],
}

impl Drop for Talking {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

/// The other gateways with a mandate now, and where they are: by the head of the ledger, or by a later one that this
/// machine has heard of.
fn others(gateway: &Gateway, scope: Option<&Scope>) -> BTreeMap<NodeName, Vec<Door>> {
    let (judgment, now) = (gateway.judgment.load(), clock::now());
    let heard = scope.and_then(|scope| scope.known().ok().flatten());
    match heard.filter(|known| known.head.head.version > judgment.head.version) {
        Some(known) => doors_of(&known.head.head, &gateway.about.node, now),
        None => doors_of(&judgment.head, &gateway.about.node, now),
    }
}

async fn talk(gateway: Arc<Gateway>, scope: Scope, peer: NodeName, doors: Vec<Door>) {
    let mut failures: u32 = 0;
    let mut hurried = gateway.peers.hurried();
    loop {
        let talked = Box::pin(exchange(&gateway, (&scope, &peer, &doors), &mut |_, _| failures = 0)).await;
        let Err(why) = talked else { continue };
        let told = describe(&why);
        if failures == 0 {
            tracing::info!(gateway = %peer, why = told, "cannot exchange with another gateway; trying again");
        }
        gateway.peers.failed(&peer, told);
        failures = failures.saturating_add(1);
        let pause = pause(failures);
        hurried.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = hurried.changed() => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Longer each time, and different at each gateway.
fn pause(failures: u32) -> Duration {
    let most = (Duration::from_millis(250) * (1 << failures.min(8))).min(LONGEST_PAUSE);
    let [jitter] = random::bytes::<1>().unwrap_or([128]);
    most * (128 + u32::from(jitter) / 2) / 256
}
