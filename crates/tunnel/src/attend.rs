//! A node without an address waits at relays, so that others reach it: a few connections at each, renewed as they are used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use identity::principal::{HostPort, NodeName};
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::accept::{present, serve_streams, turned_away};
use crate::admit::Origin;
use crate::dial::Dialer;
use crate::held::Held;
use crate::line::through::Through;
use crate::line::tls::{self, Ends};

/// So many relays are waited at, of all that there are: one may die.
const RELAYS: usize = 3;
/// Connections that wait at each. A caller uses one up, and keeps it for its next streams.
const SPARE: usize = 2;
/// Connections that came by relays, at once.
const AT_ONCE: usize = 1_024;
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

type Slot = (NodeName, HostPort, usize);

/// For as long as it is awaited: whoever drops it waits nowhere.
pub async fn attend(held: Arc<Held>, dialer: Dialer) {
    let mut slots: BTreeMap<Slot, Waiter> = BTreeMap::new();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let wanted = wanted(&held);
        slots.retain(|slot, _| wanted.contains(slot));
        for slot in wanted {
            slots.entry(slot).or_insert_with_key(|(relay, address, _)| {
                let place = (relay.clone(), address.clone());
                let task = tokio::spawn(wait(Arc::clone(&held), dialer.clone(), place, Arc::clone(&room)));
                Waiter(task.abort_handle())
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits while it is held. What came of it goes on.
#[derive(Debug)]
struct Waiter(AbortHandle);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where this node should wait: nowhere if others can call it, or have nothing to call it for.
fn wanted(held: &Held) -> Vec<Slot> {
    let running = held.running.load();
    let hidden = running.as_ref().is_some_and(|running| running.address.is_none() && !running.services.is_empty());
    if !hidden {
        return Vec::new();
    }
    let targets = held.targets.load();
    let relays = targets.relays_of(&held.node).into_iter().take(RELAYS);
    relays.flat_map(|(node, at)| (0..SPARE).map(move |nth| (node.clone(), at.clone(), nth))).collect()
}

async fn wait(held: Arc<Held>, dialer: Dialer, (relay, address): (NodeName, HostPort), room: Arc<Semaphore>) {
    let mut pause = FIRST;
    loop {
        match dialer.wait_at(&relay, &address).await {
            Ok(ends) => {
                pause = FIRST;
                let (held, room) = (Arc::clone(&held), Arc::clone(&room));
                tokio::spawn(async move {
                    let Ok(_place) = room.try_acquire() else { return };
                    receive(held, ends).await;
                });
                // A relay that wakes for nothing does not keep this node busy.
                tokio::time::sleep(BETWEEN).await;
            }
            Err(why) => {
                tracing::debug!(%relay, why, "cannot wait at a relay");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

/// A caller that a relay brought. It is judged as any other.
async fn receive(held: Arc<Held>, ends: Ends) {
    let config: Arc<ServerConfig> = match held.server() {
        Ok(config) => Arc::new(config),
        Err(why) => return tracing::error!(%why, "cannot answer"),
    };
    match tls::receive(&held, config, Box::new(Through::new(ends))).await {
        Ok((ends, met)) => {
            held.meter.shook_hands();
            turned_away(&held, (&met.peer, met.claims.as_ref()), (None, "relay"));
            let _present = present(&held, &met, "relay");
            let origin = Origin { transport: "relay", from: None };
            serve_streams(&held, None, (Box::new(ends), origin), met).await;
        }
        Err(why) => {
            held.meter.failed_to_shake_hands(why.word());
            turned_away::<()>(&held, (&Err(why), None), (None, "relay"));
        }
    }
}
