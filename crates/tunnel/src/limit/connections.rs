//! Who is let in how often: strangers cost little, and no peer takes the place of all others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use identity::principal::NodeName;
use tokio::sync::oneshot;

use crate::dial::choose::By;
use crate::limit::bounds::{Bounds, CONNECTIONS, CONNECTIONS_OF_ONE, STREAMS, STREAMS_OF_ONE};
use crate::limit::large::Long;

/// Of one address: machines behind one address, or one that has just come back, want many at once.
pub const OF_ONE_ADDRESS: usize = 256;
/// So many handshakes may fail from one address within the time; then it has one at a time, and no more of them than the pace
/// says, until it has been calm so long. To be sent away costs a fraction of what a stranger spends on a handshake.
pub const FAILURES: u32 = 16;
pub const CALM: Duration = Duration::from_secs(10);
pub const PACE: Duration = Duration::from_millis(100);
/// Addresses that are remembered: a flood from more of them forgets those that do nothing.
const ADDRESSES: usize = 16_384;

/// Connections of one node over QUIC: each carries many streams, so callers have one for each who calls there, and come over
/// TLS when that is one too many.
pub const QUIC_OF_ONE: usize = 64;
/// Connections over QUIC that may have sent much that nobody has read yet: of all nodes, and of one.
pub const WIDE: usize = 64;
pub const WIDE_OF_ONE: usize = WIDE / 8;
/// Connections that came by relays, of nodes that are believed. There, too, one leaves some to others.
pub const CARRIED: usize = 1_024;
pub const CARRIED_OF_ONE: usize = CARRIED / 4;

#[derive(Debug)]
pub struct Door {
    pub bounds: Bounds,
    inside: Mutex<Inside>,
    pub long: Long,
}

impl Default for Door {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    /// Oldest first: those that do not finish are there.
    strangers: VecDeque<(u64, oneshot::Sender<()>)>,
    addresses: HashMap<IpAddr, Address>,
    shares: [Share; 6],
}

/// Of what there is so much for all, and less for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Connections,
    Quic,
    Wide,
    Carried,
    Streams,
    /// Those over TLS, and streams.
    Sockets,
}

impl Of {
    const fn bounds(self, bounds: Bounds) -> (usize, usize) {
        match self {
            Self::Connections => (CONNECTIONS, CONNECTIONS_OF_ONE),
            Self::Quic => (CONNECTIONS, QUIC_OF_ONE),
            Self::Wide => (WIDE, WIDE_OF_ONE),
            Self::Carried => (CARRIED, CARRIED_OF_ONE),
            Self::Streams => (STREAMS, STREAMS_OF_ONE),
            Self::Sockets => (bounds.sockets, bounds.sockets_of_one),
        }
    }

    /// What one of them is counted as.
    fn all(self) -> impl Iterator<Item = Self> {
        let is_socket = matches!(self, Self::Connections | Self::Streams);
        [Some(self), is_socket.then_some(Self::Sockets)].into_iter().flatten()
    }
}

#[derive(Debug, Default)]
struct Share {
    all: usize,
    by_node: HashMap<NodeName, usize>,
}

impl Share {
    fn of(&self, node: &NodeName) -> usize {
        self.by_node.get(node).copied().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Address {
    at_once: usize,
    failures: u32,
    failed: Option<Instant>,
    /// When it was last let try although it is suspect.
    tried: Option<Instant>,
}

/// A stranger's place while it shows who it is. Dropped before `let_in`: it failed.
#[derive(Debug)]
pub struct Knock {
    door: Arc<Door>,
    number: u64,
    address: IpAddr,
    evicted: oneshot::Receiver<()>,
    is_peer: bool,
}

/// A connection of a peer on this node.
#[derive(Debug)]
pub struct Guest {
    _taken: Taken,
}

/// Room for much that nobody has read yet.
#[derive(Debug)]
pub struct Wide {
    _taken: Taken,
}

/// A peer's stream.
#[derive(Debug)]
pub struct Seat {
    _taken: Taken,
}

/// A part of a node's share, given back when dropped.
#[derive(Debug)]
struct Taken {
    door: Arc<Door>,
    node: NodeName,
    of: Of,
}

impl Door {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, inside: Mutex::default(), long: Long::default() }
    }

    /// Nothing: whoever it is has to go.
    pub fn knock(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<Knock> {
        let (address, mut inside) = (network(from), self.inside());
        if Of::Connections.all().any(|of| inside.share(of).all >= of.bounds(self.bounds).0) {
            return None;
        }
        if inside.addresses.len() >= ADDRESSES {
            inside.addresses.retain(|_, known| known.at_once > 0 || known.is_suspect(now));
            if inside.addresses.len() >= ADDRESSES {
                inside.addresses.retain(|_, known| known.at_once > 0);
            }
        }
        let known = inside.addresses.entry(address).or_default();
        if known.failed.is_some_and(|at| now.duration_since(at) >= CALM) {
            (known.failures, known.failed, known.tried) = (0, None, None);
        }
        if !known.may_try(now) {
            return None;
        }
        known.tried = known.is_suspect(now).then_some(now);
        known.at_once += 1;
        if inside.strangers.len() >= self.bounds.strangers {
            // Whoever has not finished for longest makes room.
            inside.strangers.pop_front().map(|(_, evict)| evict.send(()));
        }
        let (evict, evicted) = oneshot::channel();
        let number = inside.next;
        inside.next += 1;
        inside.strangers.push_back((number, evict));
        drop(inside);
        Some(Knock { door: Arc::clone(self), number, address, evicted, is_peer: false })
    }

    /// Would whoever comes from there have to go? Nothing is counted.
    pub fn turns_away(&self, from: IpAddr, now: Instant) -> bool {
        self.inside().addresses.get(&network(from)).is_some_and(|known| !known.may_try(now))
    }

    /// How many are showing who they are.
    pub fn strangers(&self) -> usize {
        self.inside().strangers.len()
    }

    /// By node, whoever speaks there: else one machine with two users had all of them.
    pub fn sit(self: &Arc<Self>, node: &NodeName) -> Option<Seat> {
        Some(Seat { _taken: self.take(node, Of::Streams)? })
    }

    /// For a connection over QUIC on which something is allowed.
    pub fn widen(self: &Arc<Self>, node: &NodeName) -> Option<Wide> {
        Some(Wide { _taken: self.take(node, Of::Wide)? })
    }

    /// A peer that a relay brought. It did not knock here.
    pub fn let_in_by_relay(self: &Arc<Self>, node: &NodeName) -> Option<Guest> {
        Some(Guest { _taken: self.take(node, Of::Carried)? })
    }

    fn take(self: &Arc<Self>, node: &NodeName, of: Of) -> Option<Taken> {
        let mut inside = self.inside();
        let is_full = |of: Of| {
            let ((most, of_one), share) = (of.bounds(self.bounds), inside.share(of));
            share.all >= most || share.of(node) >= of_one
        };
        if of.all().any(is_full) {
            return None;
        }
        for of in of.all() {
            let share = inside.share(of);
            share.all += 1;
            *share.by_node.entry(node.clone()).or_default() += 1;
        }
        drop(inside);
        Some(Taken { door: Arc::clone(self), node: node.clone(), of })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    const fn share(&mut self, of: Of) -> &mut Share {
        let [connections, quic, wide, carried, streams, sockets] = &mut self.shares;
        match of {
            Of::Connections => connections,
            Of::Quic => quic,
            Of::Wide => wide,
            Of::Carried => carried,
            Of::Streams => streams,
            Of::Sockets => sockets,
        }
    }
}

impl Address {
    fn is_suspect(&self, now: Instant) -> bool {
        self.failures >= FAILURES && self.failed.is_some_and(|at| now.duration_since(at) < CALM)
    }

    fn may_try(&self, now: Instant) -> bool {
        if self.is_suspect(now) {
            self.at_once == 0 && self.tried.is_none_or(|at| now.duration_since(at) >= PACE)
        } else {
            self.at_once < OF_ONE_ADDRESS
        }
    }
}

impl Knock {
    /// Waits until it has to make room for others.
    pub async fn evicted(&mut self) {
        if (&mut self.evicted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Nothing if that node has as many as one may have.
    pub fn let_in(mut self, node: &NodeName, by: By) -> Option<Guest> {
        self.is_peer = true;
        let of = match by {
            By::Tls => Of::Connections,
            By::Quic => Of::Quic,
        };
        Some(Guest { _taken: self.door.take(node, of)? })
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        inside.strangers.retain(|(number, _)| *number != self.number);
        if let Some(known) = inside.addresses.get_mut(&self.address) {
            known.at_once = known.at_once.saturating_sub(1);
            if !self.is_peer {
                known.failures = known.failures.saturating_add(1);
                known.failed = Some(Instant::now());
            } else if known.at_once == 0 {
                inside.addresses.remove(&self.address);
            } else {
                // A member is there: what a busy one breaks off, since another way was faster, is no flood.
                (known.failures, known.failed, known.tried) = (0, None, None);
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        for of in self.of.all() {
            let share = inside.share(of);
            share.all = share.all.saturating_sub(1);
            if let Some(count) = share.by_node.get_mut(&self.node) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    share.by_node.remove(&self.node);
                }
            }
        }
    }
}

/// Whoever has one address of the newer kind has a whole network of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(_) => address.to_canonical(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::bounds::STRANGERS;

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn address(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    #[test]
    fn an_address_whose_handshakes_fail_has_one_at_a_time_until_it_is_calm() {
        let (door, now) = (Arc::<Door>::default(), Instant::now());
        for _ in 0..FAILURES {
            assert!(door.knock(address(1), now).is_some());
        }
        let now = Instant::now();
        let one = door.knock(address(1), now).unwrap();
        assert!(door.knock(address(1), now).is_none());
        assert!(door.knock(address(2), now).is_some(), "others are not bothered");
        assert!(door.knock(address(1), now + CALM * 2).is_some());
        drop(one);
    }

    #[test]
    fn a_suspect_tries_no_faster_than_the_pace() {
        let (door, now) = (Arc::<Door>::default(), Instant::now());
        (0..FAILURES).for_each(|_| drop(door.knock(address(1), now).unwrap()));
        let now = Instant::now();
        drop(door.knock(address(1), now).unwrap());
        assert!(door.turns_away(address(1), now) && !door.turns_away(address(2), now));
        assert!(door.knock(address(1), now + PACE / 2).is_none());
        drop(door.knock(address(1), now + PACE).unwrap());
        assert!(door.knock(address(1), now + PACE).is_none());
        let calm = Instant::now() + CALM;
        assert!((0..FAILURES).all(|_| door.knock(address(1), calm).is_some()), "until it has been calm");
    }

    #[test]
    fn a_peer_that_is_known_fails_nothing() {
        let (door, now) = (Arc::<Door>::default(), Instant::now());
        let guests: Vec<Guest> = (0..FAILURES * 2)
            .map(|_| door.knock(address(1), now).unwrap().let_in(&node("a"), By::Tls).unwrap())
            .collect();
        let both = (door.knock(address(1), Instant::now()), door.knock(address(1), Instant::now()));
        assert!(both.0.is_some() && both.1.is_some());
        assert_eq!((guests.len(), door.strangers()), (32, 2));
        drop(both);
        for _ in 0..FAILURES {
            drop(door.knock(address(1), Instant::now()).unwrap());
            drop(door.knock(address(1), Instant::now()).unwrap().let_in(&node("a"), By::Tls));
        }
        assert!(!door.turns_away(address(1), Instant::now()), "between those that fail, some are believed");
    }

    #[test]
    fn one_node_leaves_connections_to_others() {
        let (door, now) = (Arc::<Door>::default(), Instant::now());
        let let_in = |at: &str| door.knock(address(1), now).unwrap().let_in(&node(at), By::Tls);
        let guests: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| let_in("a").unwrap()).collect();
        assert!(let_in("a").is_none());
        assert!(let_in("b").is_some());
        drop(guests);
        assert!(let_in("a").is_some());
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        let (door, now) = (Arc::<Door>::default(), Instant::now());
        let mut all: Vec<Knock> =
            (0..STRANGERS).map(|n| door.knock(address(u16::try_from(n).unwrap()), now).unwrap()).collect();
        assert!(all[0].evicted.try_recv().is_err());
        let _new = door.knock(address(60_000), now).unwrap();
        assert!(all[0].evicted.try_recv().is_ok());
        assert!(all[1].evicted.try_recv().is_err());
        assert_eq!(door.strangers(), STRANGERS);
    }

    #[test]
    fn one_node_leaves_streams_to_others() {
        let door = Arc::<Door>::default();
        let (one, other) = (node("a"), node("b"));
        let seats: Vec<Seat> = (0..STREAMS_OF_ONE).map(|_| door.sit(&one).unwrap()).collect();
        assert!(door.sit(&one).is_none());
        assert!(door.sit(&other).is_some());
        drop(seats);
        assert!(door.sit(&one).is_some());
    }

    #[test]
    fn each_share_is_counted_by_itself() {
        let door = Arc::<Door>::default();
        let carried: Vec<Guest> = (0..CARRIED_OF_ONE).map(|_| door.let_in_by_relay(&node("a")).unwrap()).collect();
        assert!(door.let_in_by_relay(&node("a")).is_none());
        assert!(door.let_in_by_relay(&node("b")).is_some());
        assert!(door.sit(&node("a")).is_some());
        assert!(door.knock(address(1), Instant::now()).unwrap().let_in(&node("a"), By::Tls).is_some());
        drop(carried);
        assert!(door.let_in_by_relay(&node("a")).is_some());
        assert!(door.inside().shares.iter().all(|share| share.all == 0 && share.by_node.is_empty()));
    }

    #[test]
    fn where_there_are_few_descriptors_one_node_leaves_some_to_others() {
        let (door, now) = (Arc::new(Door::new(Bounds::of(Some(1_024)))), Instant::now());
        let most = door.bounds.sockets_of_one;
        let let_in = |at: &str, by: By| door.knock(address(1), now)?.let_in(&node(at), by);
        let guests: Vec<_> = (0..most / 2).map(|_| let_in("a", By::Tls).unwrap()).collect();
        let seats: Vec<_> = (most / 2..most).map(|_| door.sit(&node("a")).unwrap()).collect();
        assert!(let_in("a", By::Tls).is_none() && door.sit(&node("a")).is_none());
        assert!(let_in("a", By::Quic).is_some(), "it has none of its own");
        let others: Vec<_> = (most..door.bounds.sockets).map(|_| door.sit(&node("b")).unwrap()).collect();
        assert!(door.sit(&node("c")).is_none() && door.knock(address(2), now).is_none(), "the rest is not theirs");
        drop((guests, seats, others));
        assert!(door.inside().shares.iter().all(|share| share.all == 0 && share.by_node.is_empty()));
    }

    #[test]
    fn a_whole_network_of_the_newer_addresses_is_one() {
        let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|text| network(text.parse().unwrap()));
        assert_eq!(a, b);
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), address(1));
    }
}
