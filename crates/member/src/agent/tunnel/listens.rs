//! Where the tunnel says that it listens: believed only where it was to, since other programs are sent there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use identity::id::OrgId;
use identity::principal::Principal;
use tunnel::access::targets::Targets;
use tunnel::control::listener::ListenerId;
use tunnel::local::auth::{ProgramAuth, ThisNode};
use tunnel::local::plan::ListenPlan;
use tunnel::local::ports::ListenWish;

use super::feed::Orders;

/// What is kept of why it cannot listen somewhere.
const TEXT: usize = 300;

/// What it was told to do; nothing else is of interest.
#[derive(Debug)]
pub(crate) struct Wished {
    org: OrgId,
    at: BTreeMap<ListenerId, ListenWish>,
    failed: BTreeSet<ListenerId>,
}

impl Wished {
    pub(crate) fn by(orders: &Orders) -> Self {
        let home: Vec<Principal> = orders.speak.iter().map(|identity| identity.principal.clone()).collect();
        let targets = Targets::of_all(&orders.allow);
        let here = ThisNode { id: orders.id, org: &orders.org, node: &orders.node };
        let desk = ProgramAuth::new(here, &orders.run, home, &targets);
        let ListenPlan { wishes, failed } = ListenPlan::new(&orders.run, &desk, &targets);
        Self { org: orders.id, at: wishes.into_iter().collect(), failed: failed.into_keys().collect() }
    }

    pub(crate) fn believe(
        &self,
        at: BTreeMap<ListenerId, SocketAddr>,
        failed: BTreeMap<ListenerId, String>,
    ) -> (BTreeMap<ListenerId, SocketAddr>, BTreeMap<ListenerId, String>) {
        let at = at.into_iter().filter(|(place, at)| self.could_be(place, *at)).collect();
        let failed = failed.into_iter().filter(|(place, _)| self.knows(place));
        (at, failed.map(|(place, why)| (place, why.chars().take(TEXT).collect())).collect())
    }

    fn knows(&self, place: &ListenerId) -> bool {
        place.is_for_peers() || self.at.contains_key(place) || self.failed.contains(place)
    }

    /// A port can be another one where any free one would do; the address cannot.
    fn could_be(&self, place: &ListenerId, at: SocketAddr) -> bool {
        let Some(wish) = self.at.get(place) else {
            return place.is_for_peers();
        };
        // As if it had been bound there before: so another turn in a row of listeners counts, too.
        wish.tries(Some(at), self.org)
            .iter()
            .any(|wish| wish.ip() == at.ip() && (wish.port() == at.port() || wish.port() == 0))
    }
}

#[cfg(test)]
mod tests {
    use manifest::stored::Socks;

    use super::super::feed::tests::orders;
    use super::*;

    fn places(all: &[(&str, &str)]) -> BTreeMap<ListenerId, SocketAddr> {
        let read = |(place, at): &(&str, &str)| ((*place).to_owned().try_into().unwrap(), at.parse().unwrap());
        all.iter().map(read).collect()
    }

    #[test]
    fn only_what_it_was_told_to_listen_at_is_believed() {
        let mut orders = orders();
        orders.run.policy.socks = Socks::At { addr: "127.0.0.1:1080".parse().unwrap(), password: false };
        orders.run.policy.resolver = Some("127.0.0.1:5300".parse().unwrap());
        let wished = Wished::by(&orders);
        let true_ones = [
            ("socks", "127.0.0.1:1080"),
            ("socks/spiffe://harbor/node/alpha", "127.0.0.1:40000"),
            ("resolver", "127.0.0.1:5300"),
            ("peers/tls", "[::]:7444"),
        ];
        let (at, _) = wished.believe(places(&true_ones), BTreeMap::new());
        assert_eq!(at, places(&true_ones));
        // Browsers and the resolver of the system would be sent there.
        for lie in [
            ("socks", "192.0.2.1:1080"),
            ("socks", "0.0.0.0:1080"),
            ("socks", "127.0.0.2:1080"),
            ("resolver", "8.8.8.8:53"),
            ("resolver", "127.0.0.1:5301"),
            ("forward/127.0.0.1:8000", "127.0.0.1:8000"),
            ("service/wiki", "127.0.0.1:80"),
            ("socks/spiffe://harbor/user/root", "127.0.0.1:1081"),
        ] {
            assert_eq!(wished.believe(places(&[lie]), BTreeMap::new()).0, BTreeMap::new(), "{lie:?}");
        }
    }

    #[test]
    fn what_is_open_to_others_is_where_the_fleet_says() {
        let mut orders = orders();
        orders.run.policy.socks = Socks::At { addr: "0.0.0.0:1080".parse().unwrap(), password: true };
        let wished = Wished::by(&orders);
        assert_eq!(wished.believe(places(&[("socks", "0.0.0.0:1080")]), BTreeMap::new()).0.len(), 1);
        assert_eq!(wished.believe(places(&[("socks", "0.0.0.0:1081")]), BTreeMap::new()).0.len(), 0);
    }

    #[test]
    fn why_it_failed_has_an_end() {
        let wished = Wished::by(&orders());
        let failed = [
            (ListenerId::PeersTls, "x".repeat(10_000)),
            (ListenerId::Service("made-up".parse().unwrap()), String::new()),
        ];
        let (_, failed) = wished.believe(BTreeMap::new(), failed.into());
        assert_eq!(failed, [(ListenerId::PeersTls, "x".repeat(TEXT))].into());
    }
}
