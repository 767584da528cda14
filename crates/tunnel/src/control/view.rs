//! What is going on, as `status` shows it: peers, callers, streams, and what was counted.

use std::collections::BTreeMap;

use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use manifest::stored::Transport;
use serde::{Deserialize, Serialize};

/// What is going on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub since: Option<Timestamp>,
    pub head: u64,
    /// Rows of the access table.
    pub rules: usize,
    pub peers: Vec<CalledView>,
    /// Those that are connected by their own call.
    #[serde(default)]
    pub callers: Vec<CallerView>,
    pub services: Vec<ServiceCounts>,
    /// Bytes and connections that were carried for others.
    pub relayed: RelayCounts,
    pub handshakes: HandshakeCounts,
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
    pub(crate) fn bounded(mut self) -> Self {
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
pub struct CalledView {
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
pub struct ServiceCounts {
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
pub struct RelayCounts {
    pub waiting: u64,
    pub open: u64,
    pub carried: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeCounts {
    /// With callers.
    pub done: u64,
    /// With those that were called.
    #[serde(default)]
    pub called: u64,
    /// With peers of either kind.
    pub failed: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as names and numbers get.
    fn count(n: usize, open: u64) -> ServiceCounts {
        let name = format!("{}{n:05}", "s".repeat(58));
        ServiceCounts {
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
