//! A node without an address waits at relays (a reverse tunnel), so that others reach it: a few connections at each.
//!
//! They are renewed as they are used.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use identity::principal::{HostPort, NodeName};
use rustls::ServerConfig;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::accept::backoff::{Refusals, Sign, spread};
use crate::accept::handshake::{count_caller, log_failed, log_unbelieved};
use crate::accept::streams::{TlsCaller, serve_streams};
use crate::dial::dialer::Dialer;
use crate::limit::connections::CARRIED;
use crate::state::shared::TunnelState;
use crate::stream::admit::CallOrigin;
use crate::transport::relayed::RelayedIo;
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
/// A connection that has lasted for so long has waited there.
const STAYED: Duration = Duration::from_secs(5);

/// One connection that waits at a relay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    relay: NodeName,
    address: HostPort,
    nth: usize,
}

/// For as long as it is awaited: whoever drops it waits nowhere.
pub(crate) async fn wait_at_relays(state: Arc<TunnelState>, dialer: Dialer) {
    let mut slots: BTreeMap<Slot, Waiter> = BTreeMap::new();
    let room = Arc::new(Semaphore::new(CARRIED));
    loop {
        let fails = |relay: &NodeName| slots.iter().any(|(slot, waiter)| slot.relay == *relay && waiter.fails());
        let wanted = wanted(&state, fails);
        slots.retain(|slot, _| wanted.contains(slot));
        for slot in wanted {
            slots.entry(slot).or_insert_with_key(|slot| {
                let (state, room, failures) = (Arc::clone(&state), Arc::clone(&room), Arc::<AtomicU32>::default());
                let task = tokio::spawn(wait(state, dialer.clone(), slot.clone(), room, Arc::clone(&failures)));
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
fn wanted(state: &TunnelState, fails: impl Fn(&NodeName) -> bool) -> Vec<Slot> {
    let running = state.running.load();
    let hidden = running.as_ref().is_some_and(|running| running.address.is_none() && !running.services.is_empty());
    if !hidden {
        return Vec::new();
    }
    let targets = state.targets.load();
    let mut well = 0;
    let relays = targets.relays_of(&state.node).into_iter().take(AT_MOST).take_while(|(relay, _)| {
        let is_wanted = well < RELAYS;
        well += usize::from(!fails(relay));
        is_wanted
    });
    relays
        .flat_map(|(relay, address)| {
            (0..SPARE).map(move |nth| Slot { relay: relay.clone(), address: address.clone(), nth })
        })
        .collect()
}

async fn wait(
    state: Arc<TunnelState>,
    dialer: Dialer,
    Slot { relay, address, .. }: Slot,
    room: Arc<Semaphore>,
    failures: Arc<AtomicU32>,
) {
    // Of this one connection: where a relay is not there yet, all of them fail at once.
    let mut refusals = Refusals::since(Instant::now());
    loop {
        let began = Instant::now();
        let mut waiting = pin!(dialer.wait_at(&relay, &address));
        let waited = if let Ok(waited) = timeout(SETTLED, &mut waiting).await {
            waited
        } else {
            failures.store(0, Relaxed);
            waiting.await
        };
        match waited {
            Ok(through) => {
                refusals = Refusals::since(Instant::now());
                let (state, room) = (Arc::clone(&state), Arc::clone(&room));
                let (tell, is_met) = oneshot::channel();
                let woken = Woken { is_met: tell, failures: Arc::clone(&failures) };
                tokio::spawn(async move {
                    let Ok(_place) = room.try_acquire() else { return };
                    receive(state, through, woken).await;
                });
                // A relay that wakes for nothing does not keep this node busy.
                tokio::select! {
                    Ok(()) = is_met => {}
                    () = tokio::time::sleep(BETWEEN) => {}
                }
            }
            Err(why) => {
                tracing::debug!(%relay, why = why.plain(), "cannot wait at a relay");
                failures.fetch_add(1, Relaxed);
                let now = Instant::now();
                if Sign::of(&why) == Sign::Cut && now.duration_since(began) >= STAYED {
                    refusals = Refusals::since(now);
                }
                tokio::time::sleep(spread(refusals.pause(&why, now))).await;
            }
        }
    }
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
async fn receive(state: Arc<TunnelState>, through: RelayedIo, woken: Woken) {
    let config: Arc<ServerConfig> = match state.svids.server() {
        Ok(config) => Arc::new(config),
        Err(why) => return tracing::error!(%why, "cannot answer"),
    };
    let origin = CallOrigin { transport: "relay", from: None };
    match tls::receive(&state, config, Box::new(through)).await {
        Ok((connection, met)) => {
            state.meter.shook_hands();
            log_unbelieved(&state, &met, origin);
            let permit = match &met.peer {
                Ok(peer) => match state.limits.admit_relayed(peer.node()) {
                    Some(permit) => Some(permit),
                    None => return state.meter.failed_to_shake_hands("too_many"),
                },
                Err(_) => None,
            };
            if permit.is_some() {
                woken.met();
            }
            let _counted = count_caller(&state, &met, origin.transport);
            serve_streams(&state, TlsCaller { connection: Box::new(connection), met, origin, permit }, None).await;
        }
        Err(why) => {
            state.meter.failed_to_shake_hands(why.word());
            log_failed(&state, &why, origin);
        }
    }
}
