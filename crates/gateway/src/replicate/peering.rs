//! Peering (a full mesh) with every other gateway: one conversation with each, and a new one after trouble.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ground::{clock, random};
use identity::causes::describe;
use identity::principal::NodeName;
use member::store::scope::Scope;
use tokio::task::JoinHandle;
use wire::connect::GatewayAddress;

use crate::gateway::Gateway;
use crate::replicate::fetch;
use crate::replicate::mesh::{OtherGateway, addresses_of, exchange};

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
        for (peer, addresses) in &later {
            others.entry(peer.clone()).or_insert_with(|| addresses.clone());
        }
        talks.retain(|peer, _| others.contains_key(peer));
        gateway.peers.forget(|peer| others.contains_key(peer));
        for (peer, addresses) in others {
            let same = talks.get(&peer).is_some_and(|talk| talk.addresses == addresses);
            if !same {
                let other = OtherGateway { name: peer.clone(), addresses: addresses.clone(), scope: scope.clone() };
                let running = [
                    tokio::spawn(talk(Arc::clone(&gateway), other.clone())),
                    tokio::spawn(fetch::keep(Arc::clone(&gateway), other)),
                ];
                talks.insert(peer, Talking { addresses, running });
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

struct Talking {
    addresses: Vec<GatewayAddress>,
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
fn others(gateway: &Gateway, scope: Option<&Scope>) -> BTreeMap<NodeName, Vec<GatewayAddress>> {
    let (judgment, now) = (gateway.judgment.load(), clock::now());
    let heard = scope.and_then(|scope| scope.known().ok().flatten());
    match heard.filter(|known| known.head.head.version > judgment.head.version) {
        Some(known) => addresses_of(&known.head.head, &gateway.about.node, now),
        None => addresses_of(&judgment.head, &gateway.about.node, now),
    }
}

async fn talk(gateway: Arc<Gateway>, peer: OtherGateway) {
    let mut failures: u32 = 0;
    let mut hurried = gateway.peers.hurried();
    loop {
        let talked = Box::pin(exchange(&gateway, &peer, &mut |_, _| failures = 0)).await;
        let Err(why) = talked else { continue };
        let told = describe(&why);
        if failures == 0 {
            tracing::info!(gateway = %peer.name, why = told, "cannot exchange with another gateway; trying again");
        }
        gateway.peers.failed(&peer.name, told);
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
