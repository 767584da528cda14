//! A node without an address waits at relays, so that others reach it: a few connections at each, renewed as they are used.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use identity::principal::{HostPort, NodeName};
use rustls::ServerConfig;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::accept::{not_met, present, serve_streams, turned_away};
use crate::dial::Dialer;
use crate::limit::connections::CARRIED;
use crate::state::shared::Held;
use crate::stream::admit::Origin;
use crate::transport::relayed::Through;
use crate::transport::tls;

/// So many relays are waited at, of all that there are: one may die. Where it fails, the next of them is waited at, too.
const RELAYS: usize = 3;
const AT_MOST: usize = 12;
/// After so many failures in a row, and until it was waited at for so long, which is longer than any call takes to fail.
const FAILURES: u32 = 3;
const SETTLED: Duration = Duration::from_secs(45);
/// Connections that wait at each. A caller uses one up, and keeps it for its next streams.
const SPARE: usize = 2;
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

type Slot = (NodeName, HostPort, usize);

/// For as long as it is awaited: whoever drops it waits nowhere.
pub async fn attend(held: Arc<Held>, dialer: Dialer) {
    let mut slots: BTreeMap<Slot, Waiter> = BTreeMap::new();
    let room = Arc::new(Semaphore::new(CARRIED));
    loop {
        let fails = |relay: &NodeName| slots.iter().any(|((node, ..), waiter)| node == relay && waiter.fails());
        let wanted = wanted(&held, fails);
        slots.retain(|slot, _| wanted.contains(slot));
        for slot in wanted {
            slots.entry(slot).or_insert_with_key(|(relay, address, _)| {
                let place = (relay.clone(), address.clone());
                let failures = Arc::<AtomicU32>::default();
                let shared = (Arc::clone(&room), Arc::clone(&failures));
                let task = tokio::spawn(wait(Arc::clone(&held), dialer.clone(), place, shared));
                Waiter { task: task.abort_handle(), failures }
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits while it is held. What came of it goes on.
#[derive(Debug)]
struct Waiter {
    task: AbortHandle,
    failures: Arc<AtomicU32>,
}

impl Waiter {
    fn fails(&self) -> bool {
        self.failures.load(Relaxed) >= FAILURES
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where this node should wait: nowhere if others can call it, or have nothing to call it for.
fn wanted(held: &Held, fails: impl Fn(&NodeName) -> bool) -> Vec<Slot> {
    let running = held.running.load();
    let hidden = running.as_ref().is_some_and(|running| running.address.is_none() && !running.services.is_empty());
    if !hidden {
        return Vec::new();
    }
    let targets = held.targets.load();
    let mut well = 0;
    let relays = targets.relays_of(&held.node).into_iter().take(AT_MOST).take_while(|(relay, _)| {
        let is_wanted = well < RELAYS;
        well += usize::from(!fails(relay));
        is_wanted
    });
    relays.flat_map(|(node, at)| (0..SPARE).map(move |nth| (node.clone(), at.clone(), nth))).collect()
}

async fn wait(
    held: Arc<Held>,
    dialer: Dialer,
    (relay, address): (NodeName, HostPort),
    (room, failures): (Arc<Semaphore>, Arc<AtomicU32>),
) {
    // In a row, of this one connection: where a relay is not there yet, all of them fail at once.
    let mut in_a_row = 0;
    loop {
        let mut waiting = pin!(dialer.wait_at(&relay, &address));
        let waited = if let Ok(waited) = timeout(SETTLED, &mut waiting).await {
            waited
        } else {
            failures.store(0, Relaxed);
            waiting.await
        };
        match waited {
            Ok(through) => {
                in_a_row = 0;
                let (held, room) = (Arc::clone(&held), Arc::clone(&room));
                let (tell, is_met) = oneshot::channel();
                let woken = Woken { is_met: tell, failures: Arc::clone(&failures) };
                tokio::spawn(async move {
                    let Ok(_place) = room.try_acquire() else { return };
                    receive(held, through, woken).await;
                });
                // A relay that wakes for nothing does not keep this node busy.
                tokio::select! {
                    Ok(()) = is_met => {}
                    () = tokio::time::sleep(BETWEEN) => {}
                }
            }
            Err(why) => {
                tracing::debug!(%relay, why, "cannot wait at a relay");
                failures.fetch_add(1, Relaxed);
                tokio::time::sleep(pause(in_a_row)).await;
                in_a_row = in_a_row.saturating_add(1);
            }
        }
    }
}

/// Longer with each failure in a row.
fn pause(failures: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST)
}

/// A relay has woken this node: it is of use once there is a caller that is believed, however long that takes.
#[derive(Debug)]
struct Woken {
    is_met: oneshot::Sender<()>,
    failures: Arc<AtomicU32>,
}

impl Woken {
    fn met(self) {
        self.failures.store(0, Relaxed);
        let _ = self.is_met.send(());
    }
}

/// A caller that a relay brought. It is judged as any other.
async fn receive(held: Arc<Held>, through: Through, woken: Woken) {
    let config: Arc<ServerConfig> = match held.server() {
        Ok(config) => Arc::new(config),
        Err(why) => return tracing::error!(%why, "cannot answer"),
    };
    match tls::receive(&held, config, Box::new(through)).await {
        Ok((ends, met)) => {
            held.meter.shook_hands();
            turned_away(&held, &met, (None, "relay"));
            let guest = match &met.peer {
                Ok(peer) => match held.door.let_in_by_relay(peer.node()) {
                    Some(guest) => Some(guest),
                    None => return held.meter.failed_to_shake_hands("too_many"),
                },
                Err(_) => None,
            };
            if guest.is_some() {
                woken.met();
            }
            let _present = present(&held, &met, "relay");
            let origin = Origin { transport: "relay", from: None };
            serve_streams(&held, (None, guest), (Box::new(ends), origin), met).await;
        }
        Err(why) => {
            held.meter.failed_to_shake_hands(why.word());
            not_met(&held, &why, (None, "relay"));
        }
    }
}
