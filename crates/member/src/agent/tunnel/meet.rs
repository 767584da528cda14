//! Whom the tunnel met: judged here anew, by what was shown and not by who says so, and written down many at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::certificate;
use identity::id::Digest;
use identity::principal::NodeName;
use tokio::time::Instant;
use tunnel::access::pins::Pins;
use tunnel::access::trust::TrustSnapshot;
use tunnel::control::event::Meeting;
use tunnel::control::listener::ListenerId;

use super::feed::Orders;
use crate::store::scope::{Scope, ScopeError};
use crate::store::tunnel::Met;

/// After a restart everybody is met at once: it is one file, and it is written whole.
const BETWEEN: Duration = Duration::from_secs(1);
/// A disk that takes nothing is tried again.
const AFTER_A_FAILURE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Meetings {
    met: Arc<Mutex<Met>>,
    /// By the orders of now; made when somebody is met.
    standing: Option<TrustSnapshot>,
    /// Something is not on disk.
    is_new: bool,
    last: Option<Instant>,
    due: Option<Instant>,
    disbelieved: u64,
}

impl Meetings {
    pub(crate) const fn new(met: Arc<Mutex<Met>>) -> Self {
        Self { met, standing: None, is_new: false, last: None, due: None, disbelieved: 0 }
    }

    pub(crate) fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The orders are other ones.
    pub(crate) fn judge_anew(&mut self) {
        self.standing = None;
    }

    /// At once, or when enough time has passed since the last time.
    pub(crate) fn wish_to_write(&mut self) {
        let now = Instant::now();
        let next = self.last.map_or(now, |last| now.max(last + BETWEEN));
        self.due.get_or_insert(next);
    }

    /// Also if the disk took nothing lately: others wait to be told what goes with it.
    pub(crate) fn write_soon(&mut self) {
        self.due = None;
        self.wish_to_write();
    }

    pub(crate) fn had_ports(&mut self, ports: &BTreeMap<ListenerId, SocketAddr>) {
        let mut met = self.met();
        if met.ports != *ports {
            met.ports.clone_from(ports);
            drop(met);
            self.is_new = true;
        }
    }

    /// When what is new is to be written down.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn take(&mut self, orders: &Orders, meeting: Meeting) {
        if is_known(&self.met().pins, &meeting) {
            return;
        }
        match self.judge(orders, meeting) {
            Ok(Some((name, node_key))) => {
                self.met().pin(name, node_key);
                self.is_new = true;
                self.wish_to_write();
            }
            Ok(None) => {}
            Err(why) => {
                self.disbelieved = self.disbelieved.saturating_add(1);
                // Whoever took the tunnel over could say this all day.
                if self.disbelieved.is_power_of_two() {
                    tracing::warn!(why, times = self.disbelieved, "whom the tunnel says it met is not believed here");
                }
            }
        }
    }

    /// The name that is a key's from now on.
    fn judge(&mut self, orders: &Orders, meeting: Meeting) -> Result<Option<(NodeName, Digest)>, String> {
        let now = clock::now();
        let standing = match self.standing.take() {
            Some(standing) => standing,
            None => self.stand(orders)?,
        };
        let standing = self.standing.insert(standing);
        let peer = standing.recall(meeting, now).map_err(|why| describe(&why))?;
        let is_new = standing.meet(&peer, now).map_err(|why| describe(&why))?;
        Ok(is_new.then(|| (peer.node().clone(), peer.node_key().digest())))
    }

    fn stand(&self, orders: &Orders) -> Result<TrustSnapshot, String> {
        let mut met = self.met();
        let pins = Arc::new(Pins::from(met.pins.clone()));
        let standing = TrustSnapshot::new(&orders.org, orders.know.clone(), pins).map_err(|why| describe(&why))?;
        let revoked = &standing.known.head.head.revocations.node_keys;
        met.forget(|key| revoked.contains(key));
        Ok(standing)
    }

    pub(crate) fn save(&mut self, scope: &Scope) -> Result<(), ScopeError> {
        let now = Instant::now();
        let saved = if self.is_new { self.met().save(scope) } else { Ok(()) };
        self.is_new = saved.is_err();
        (self.last, self.due) = (Some(now), saved.is_err().then(|| now + AFTER_A_FAILURE));
        saved
    }
}

/// It says nothing that is not written down already: to find out, nothing has to be verified.
fn is_known(pins: &BTreeMap<NodeName, Digest>, meeting: &Meeting) -> bool {
    let leaf = meeting.chain.first().and_then(|der| certificate::read(&der.0.clone().into()).ok());
    let binding = leaf.and_then(|leaf| leaf.binding);
    binding.is_some_and(|binding| pins.get(&binding.node) == Some(&binding.node_key.digest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_takes_nothing_keeps_nobody_from_being_told_where_it_listens() {
        let (_root, scope) = crate::scene::scope();
        // Nothing can take its place.
        std::fs::create_dir_all(scope.path("tunnel.json/x")).unwrap();
        let mut meetings = Meetings::new(Arc::default());
        meetings.had_ports(&[(ListenerId::Socks, "127.0.0.1:1080".parse().unwrap())].into());
        assert!(meetings.save(&scope).is_err());
        let is_soon = |meetings: &Meetings| meetings.due().is_some_and(|at| at <= Instant::now() + BETWEEN);
        meetings.wish_to_write();
        assert!(!is_soon(&meetings), "it is tried again and again");
        meetings.write_soon();
        assert!(is_soon(&meetings));
    }
}
