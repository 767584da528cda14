//! What the agent hands to the tunnel's process, and what that one tells the agent: the words on the socket between them.
//!
//! Each order is whole in itself and takes the place of the last one of its kind; only `Order::Pin` adds to what was said
//! before. `Word::Done` says that an order is in force: from then on nothing is opened that it forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::members::Listing;
use identity::principal::{HostPort, Name, NodeName, OrgName, Principal};
use identity::text::Bytes;
use identity::time::Timestamp;
use manifest::stored::{Access, Listener, Transport, TunnelPolicy};
use org::peer::Presented;
use org::suspended::Suspensions;
use serde::{Deserialize, Serialize};
use wire::known::KnownFile;
use wire::peer::{Declined, News};
use zeroize::Zeroize;

/// What an order may be long at most: tables of a large fleet.
pub const MOST: usize = 256 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbered {
    pub number: u64,
    pub order: Order,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// First of all, and once.
    Be { org: OrgName, node: NodeName },
    /// What is true now, and what this node shows of itself.
    Know(Box<Knowledge>),
    /// The first key that was seen under each of these names: written down, beside those that were said before.
    Pin(BTreeMap<NodeName, Digest>),
    /// For whom it speaks. The node itself is among them.
    Speak(Vec<Identity>),
    /// Who may call what here. All of them must permit; if there is none, nobody may.
    Allow(Vec<Access>),
    /// What it does.
    Run(Box<Running>),
    /// To be answered by `Word::Shown`.
    Show(Question),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knowledge {
    pub known: KnownFile,
    /// By how many seconds the clock here is ahead of one that never jumped: delays run by that one.
    #[serde(default)]
    pub ahead: i64,
    /// The identity roots in force, and those that were: only for words.
    pub roots: Vec<Bytes>,
    pub former: Vec<Bytes>,
    /// Since when each suspension is known here.
    #[serde(default)]
    pub suspensions: Suspensions,
    /// Absent while this node was never shown its place.
    pub presented: Option<Presented>,
}

/// An SVID with its key.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub principal: Principal,
    pub chain: Vec<Bytes>,
    /// PKCS #8.
    pub key: Bytes,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.key.0.zeroize();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// Where others reach this node.
    pub address: Option<HostPort>,
    pub relay: bool,
    pub policy: TunnelPolicy,
    /// What listens here.
    pub services: BTreeMap<Name, Listener>,
    /// Ports that were bound before: they are wished for again.
    pub ports: BTreeMap<Place, SocketAddr>,
    /// By which a program shows for which user it asks. Digests, so that nothing is to be had here.
    pub passwords: BTreeMap<Name, Digest>,
}

/// A place where the tunnel listens for programs of this machine, or for peers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// For peers, over TLS and over QUIC.
    PeersTls,
    PeersQuic,
    /// SOCKS5 for whoever is there by default: the one user at home here, or the node.
    Socks,
    /// SOCKS5 for one principal.
    SocksOf(Principal),
    /// The forward that was wished for at this address.
    Forward(HostPort),
    /// A service that its name resolves to.
    Service(Name),
    /// The same at one of several nodes.
    ServiceAt(Name, NodeName),
    Resolver,
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        match place {
            Place::PeersTls => "peers/tls".to_owned(),
            Place::PeersQuic => "peers/quic".to_owned(),
            Place::Socks => "socks".to_owned(),
            Place::SocksOf(principal) => format!("socks/{principal}"),
            Place::Forward(wished) => format!("forward/{wished}"),
            Place::Service(name) => format!("service/{name}"),
            Place::ServiceAt(name, node) => format!("service/{name}/{node}"),
            Place::Resolver => "resolver".to_owned(),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let odd = || format!("`{text}` is no place");
        Ok(match text.split_once('/') {
            None if text == "socks" => Self::Socks,
            None if text == "resolver" => Self::Resolver,
            Some(("peers", "tls")) => Self::PeersTls,
            Some(("peers", "quic")) => Self::PeersQuic,
            Some(("socks", principal)) => Self::SocksOf(principal.parse().map_err(|_| odd())?),
            Some(("forward", wished)) => Self::Forward(wished.parse().map_err(|_| odd())?),
            Some(("service", name)) => match name.split_once('/') {
                None => Self::Service(name.parse().map_err(|_| odd())?),
                Some((name, node)) => {
                    Self::ServiceAt(name.parse().map_err(|_| odd())?, node.parse().map_err(|_| odd())?)
                }
            },
            None | Some(_) => return Err(odd()),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Everything that is open and counted.
    View,
    /// Who is at the other end of a connection that a service here accepted?
    Caller(Connection),
    /// Can this service be reached, and by which way?
    Reach { service: Name, who: Option<Principal> },
    /// Does it take a call of somebody here? It is begun, and ended without a byte.
    Call { service: Name, who: Principal },
}

/// A connection that a service here accepted, as the service sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Connection {
    /// By both of its ends: that very one.
    Between { far: SocketAddr, near: SocketAddr },
    /// By its far end alone, which connections to other services may have, too.
    From(SocketAddr),
}

/// What the tunnel tells the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// The order of this number, and all before it, are in force.
    Done(u64),
    /// A peer knows more than was handed in.
    Heard(Box<News>),
    /// A key was seen under a name for the first time, or in another's place.
    Met(Box<Meeting>),
    /// Where it listens, of all that it was to listen at, and what failed.
    Listens { at: BTreeMap<Place, SocketAddr>, failed: BTreeMap<Place, String> },
    /// The answer to the question of this number.
    Shown { number: u64, answer: Box<Answer> },
}

/// All that a peer showed, so that whoever hears of it can judge it anew.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    pub chain: Vec<Bytes>,
    /// It called; otherwise it was called.
    pub is_caller: bool,
    /// The head by whose map it is shown; absent if that is the one that was handed in last.
    pub by: Option<Envelope>,
    pub listing: Option<Listing>,
    pub admission: Option<Envelope>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    View(View),
    Caller(Option<Caller>),
    Reach(Vec<Way>),
    Call(Called),
}

/// What is going on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub since: Option<Timestamp>,
    pub head: u64,
    /// Rows of the access table.
    pub rules: usize,
    pub peers: Vec<PeerView>,
    /// Those that are connected by their own call.
    #[serde(default)]
    pub callers: Vec<CallerView>,
    pub services: Vec<Count>,
    /// Bytes and connections that were carried for others.
    pub relayed: Relayed,
    pub handshakes: Handshakes,
    /// Programs of this machine that were sent away, by what was wrong: names, passwords, or too many at once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, u64>,
    /// What keeps the process from the file system.
    pub sandbox: String,
    /// Rows that are not told: there are too many.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: usize,
    /// What it has less room for than usual, for want of descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
const fn is_none(count: &usize) -> bool {
    *count == 0
}

impl View {
    /// Of each kind of row. A row has some hundred bytes, and the agent hears no word of more than 16 MiB.
    pub const MOST: usize = 4_096;

    /// What is in use comes first, and stays.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.left_out = cut(&mut self.peers, |peer| peer.connections > 0)
            + cut(&mut self.callers, |caller| caller.streams > 0)
            + cut(&mut self.services, |count| count.open > 0);
        self
    }
}

fn cut<T>(rows: &mut Vec<T>, in_use: impl Fn(&T) -> bool) -> usize {
    let left_out = rows.len().saturating_sub(View::MOST);
    if left_out > 0 {
        rows.sort_by_key(|row| !in_use(row));
        rows.truncate(View::MOST);
    }
    left_out
}

/// A node that this one has called lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    pub node: NodeName,
    /// `tls` or `quic`, and why.
    pub transport: Transport,
    pub why: String,
    /// The relay in between.
    pub through: Option<NodeName>,
    pub connections: usize,
    pub streams: usize,
    pub head: u64,
    pub round_trip_us: Option<u64>,
    /// Why it could not be reached at the last try.
    pub problem: Option<String>,
}

/// A node that is connected now by its own call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerView {
    pub node: NodeName,
    /// `tls` or `quic`; `relay` if it came by one.
    pub transport: String,
    pub since: Timestamp,
    pub connections: usize,
    pub streams: usize,
    /// The head that it went by when it came.
    pub head: u64,
}

/// What a principal did with a service. `incoming` is what a service here was asked, else what was asked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub service: Name,
    pub principal: Principal,
    pub incoming: bool,
    pub open: u64,
    pub streams: u64,
    /// From the caller to the service, and back.
    pub sent: u64,
    pub received: u64,
    pub refused: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    pub waiting: u64,
    pub open: u64,
    pub carried: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// With callers.
    pub done: u64,
    /// With those that were called.
    #[serde(default)]
    pub called: u64,
    /// With peers of either kind.
    pub failed: BTreeMap<String, u64>,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub principal: Principal,
    pub node: NodeName,
    pub service: Name,
    /// Where the service took the connection that this is about. To any other address it is another's.
    pub at: SocketAddr,
    pub since: Timestamp,
}

/// One way to a service, tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    pub node: NodeName,
    pub transport: Transport,
    pub through: Option<NodeName>,
    /// What was found; an error says what failed.
    pub outcome: Result<String, String>,
}

/// What came of a call that was only to be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Called {
    /// The service on that node took it, over `tls` or `quic`; `here` if it is this node.
    Taken { node: NodeName, by: String },
    /// That node said no.
    Declined { node: NodeName, why: Declined },
    /// No node that has the service was reached.
    NoWay,
    /// Nothing came of it in time.
    Late,
    /// It is on the nodes of a class, and none of them was named.
    WhichOne { class: Name },
    /// Nobody was called: this node itself does not let it out.
    Kept(String),
}

/// Whoever is at home here, by what `Speak` brought.
pub fn spoken_for(identities: &[Identity]) -> BTreeSet<Principal> {
    identities.iter().map(|identity| identity.principal.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as names and numbers get.
    fn count(n: usize, open: u64) -> Count {
        let name = format!("{}{n:05}", "s".repeat(58));
        Count {
            service: name.parse().unwrap(),
            principal: format!("spiffe://{}/service/{name}", "o".repeat(63)).parse().unwrap(),
            incoming: true,
            open,
            streams: u64::MAX,
            sent: u64::MAX,
            received: u64::MAX,
            refused: ["not_allowed", "service_down", "too_many"].map(|why| (why.to_owned(), u64::MAX)).into(),
        }
    }

    #[test]
    fn a_view_of_many_rows_keeps_those_in_use_and_is_short_enough_to_be_heard() {
        let services = (0..20_000).map(|n| count(n, u64::from(n == 19_999))).collect();
        let view = View { services, ..View::default() }.bounded();
        assert_eq!((view.services.len(), view.left_out), (View::MOST, 20_000 - View::MOST));
        assert_eq!(view.services[0].open, 1);
        // Peers and callers may be as many, and have fewer bytes.
        assert!(serde_json::to_vec(&view).unwrap().len() < (16 << 20) / 3);
    }
}
