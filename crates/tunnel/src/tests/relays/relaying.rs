//! A node without an address is reached by relays, which read nothing and let nobody in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use identity::principal::NodeName;
use manifest::stored::{Caller, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use crate::accept::by_relay::wait_at_relays;
use crate::access::targets::Targets;
use crate::dial::no_stream::NoStream;
use crate::limit::connections::CARRIED_OF_ONE;
use crate::tests::scene::{Org, node};
use crate::tests::town::{House, Middle, broke, echo, echoed, until, within};

/// `nas` has a wiki and no address, `beta` calls it, `relay-1` and `relay-2` carry.
pub struct Bay {
    pub org: Org,
    pub nas: House,
    pub beta: House,
    pub relays: Vec<House>,
    /// The way to each relay.
    ways: Vec<Middle>,
    waits: JoinHandle<()>,
}

impl Bay {
    pub async fn open(count: usize) -> Self {
        let names = ["nas", "beta", "relay-1", "relay-2", "relay-3", "relay-4", "mallory"];
        let org = Org::new(&names);
        let mut relays = Vec::new();
        for name in names.iter().skip(2).take(count) {
            let relay = House::open(&org, name, Transport::Tls).await;
            relay.change(|running| running.relay = true);
            relays.push(relay);
        }
        let mut ways = Vec::new();
        for relay in &relays {
            ways.push(Middle::to(relay.address).await);
        }
        let at: BTreeMap<_, _> =
            relays.iter().zip(&ways).map(|(relay, way)| (relay.state.node.clone(), way.address)).collect();
        let mut nas = House::open(&org, "nas", Transport::Tls).await;
        let mut beta = House::open(&org, "beta", Transport::Tls).await;
        nas.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
        nas.know_relays(&at);
        beta.aim_hidden("wiki", "nas");
        beta.know_relays(&at);
        let waits = tokio::spawn(wait_at_relays(Arc::clone(&nas.state), nas.dialer.clone()));
        let bay = Self { org, nas, beta, relays, ways, waits };
        for relay in bay.first_three() {
            bay.until_waited_at(relay).await;
        }
        bay
    }

    /// The node waits nowhere any more; relays expect it to come back.
    pub async fn leave(&self) {
        self.waits.abort();
        let waiting = |relay: &House| relay.state.meter.relayed.view().waiting;
        until("nobody waits", || self.relays.iter().all(|relay| waiting(relay) == 0)).await;
    }

    pub async fn open_and_leave(count: usize) -> Self {
        let bay = Self::open(count).await;
        bay.leave().await;
        bay
    }

    /// The relays at which the node waits first.
    pub fn first_three(&self) -> Vec<usize> {
        let order = self.nas.state.targets.load().relays_of(&node("nas"));
        let place = |name: &NodeName| self.relays.iter().position(|relay| relay.state.node == *name).unwrap();
        order.iter().take(3).map(|(name, _)| place(name)).collect()
    }

    pub async fn until_waited_at(&self, relay: usize) {
        until("it waits at the relay", || self.relays[relay].state.meter.relayed.view().waiting > 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_address_is_reached_by_a_relay_and_a_connection_is_used_again() {
    let bay = Bay::open(1).await;
    for _ in 0..5 {
        within(bay.beta.echoes("wiki")).await.unwrap();
    }
    let relayed = bay.relays[0].state.meter.relayed.view();
    assert!((1..5).contains(&relayed.carried), "{} ways for five streams", relayed.carried);
    let view = bay.beta.dialer.views().into_iter().find(|view| view.node == node("nas")).unwrap();
    assert_eq!(view.through, Some(node("relay-1")));
    assert!(relayed.bytes > 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_at_once_wait_until_the_node_has_brought_a_connection_for_each() {
    let bay = Arc::new(Bay::open(1).await);
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let bay = Arc::clone(&bay);
            tokio::spawn(async move { bay.beta.call("wiki").await })
        })
        .collect();
    let mut open = Vec::new();
    for call in calls {
        open.push(within(call).await.unwrap().unwrap());
    }
    for program in &mut open {
        echoed(program, b"ahoy").await;
    }
    assert_eq!(bay.relays[0].state.meter.relayed.view().open, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_calls_a_node_that_waits_at_itself() {
    let mut bay = Bay::open(1).await;
    bay.nas.allow("wiki", vec![Caller::Node(node("relay-1"))]);
    let relay = &mut bay.relays[0];
    relay.aim_hidden("wiki", "nas");
    relay.state.heard_at.store(Some(Arc::new(relay.address)));
    within(relay.echoes("wiki")).await.unwrap();
    let view = relay.dialer.views().into_iter().find(|view| view.node == node("nas")).unwrap();
    assert_eq!(view.through, Some(node("relay-1")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_bytes_and_a_half_close_go_through_a_relay_unchanged() {
    let bay = Bay::open(1).await;
    let mut program = within(bay.beta.call("wiki")).await.unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (mut from, mut to) = program.split();
    let write = async {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let (read, ()) = within(async { tokio::join!(from.read_to_end(&mut back), write) }).await;
    assert_eq!(read.unwrap(), sent.len());
    assert!(back == sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_itself_decides_whatever_relay_brings_the_caller() {
    let mut bay = Bay::open(1).await;
    bay.nas.allow("wiki", Vec::new());
    let refused = within(bay.beta.call("wiki")).await.err();
    assert!(matches!(refused, Some(NoStream::Declined { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_dies_is_one_of_two() {
    let bay = Bay::open(2).await;
    let mut program = within(bay.beta.call("wiki")).await.unwrap();
    echoed(&mut program, b"ahoy").await;
    let used = bay.relays.iter().position(|relay| relay.state.meter.relayed.view().open > 0).unwrap();
    bay.ways[used].die();
    broke(&mut program).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
    assert_eq!(bay.relays[1 - used].state.meter.relayed.view().carried, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_three_relays_are_dead_the_fourth_is_of_use() {
    let bay = Bay::open(4).await;
    let first = bay.first_three();
    let fourth = (0..4).find(|relay| !first.contains(relay)).unwrap();
    let waiting = |relay: usize| bay.relays[relay].state.meter.relayed.view().waiting;
    assert_eq!(waiting(fourth), 0);
    for relay in first {
        bay.ways[relay].die();
    }
    bay.until_waited_at(fourth).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
    assert_eq!(bay.relays[fourth].state.meter.relayed.view().carried, 1);
}

#[test]
fn relays_share_the_work() {
    let names: Vec<NodeName> = (1..=5).map(|n| node(&format!("relay-{n}"))).collect();
    let relays = names.iter().map(|name| (name.clone(), "192.0.2.1:7444".parse().unwrap())).collect();
    let targets = Targets { services: BTreeMap::new(), relays };
    let mut first: BTreeMap<NodeName, usize> = BTreeMap::new();
    for n in 0..500 {
        let order = targets.relays_of(&node(&format!("nas-{n}")));
        assert_eq!(order.len(), 5);
        *first.entry(order[0].0.clone()).or_default() += 1;
    }
    assert!(first.len() == 5 && first.values().all(|count| (50..200).contains(count)), "{first:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_does_not_take_all_that_comes_by_relays() {
    let bay = Bay::open(1).await;
    let take = || bay.nas.state.limits.admit_relayed(&node("beta"));
    let taken: Vec<_> = (0..CARRIED_OF_ONE).map(|_| take().unwrap()).collect();
    assert!(within(bay.beta.call("wiki")).await.is_err());
    drop(taken);
    bay.until_waited_at(0).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_carries_for_nobody_says_so() {
    let bay = Bay::open(1).await;
    bay.relays[0].change(|running| running.relay = false);
    let refused = within(bay.beta.call("wiki")).await.err().unwrap().to_string();
    assert!(refused.contains("it carries nothing for others"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_carried_to_a_node_that_does_not_wait() {
    let bay = Bay::open_and_leave(1).await;
    let refused = within(bay.beta.call("wiki")).await.err().unwrap().to_string();
    assert!(refused.contains("does not wait there"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_carried_ends_when_the_operators_revoke_one_of_the_two() {
    let mut bay = Bay::open(1).await;
    let mut program = within(bay.beta.call("wiki")).await.unwrap();
    echoed(&mut program, b"ahoy").await;
    bay.org.revoke("beta");
    // Only the relay has heard of it.
    bay.relays[0].state.know(bay.org.knowledge("relay-1")).unwrap();
    broke(&mut program).await;
    let refused = within(bay.beta.call("wiki")).await.err();
    assert!(matches!(refused, Some(NoStream::NoWay { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_at_a_revoked_relay_and_no_revoked_node_waits() {
    let waiting = |bay: &Bay| bay.relays[0].state.meter.relayed.view().waiting;
    for revoked in ["nas", "relay-1"] {
        let mut bay = Bay::open(1).await;
        bay.org.revoke(revoked);
        let (learns, name) = if revoked == "nas" { (&bay.relays[0], "relay-1") } else { (&bay.nas, "nas") };
        learns.state.know(bay.org.knowledge(name)).unwrap();
        until("nobody waits", || waiting(&bay) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_through_a_revoked_relay_ends_on_either_side() {
    for learns in ["beta", "nas"] {
        let mut bay = Bay::open(1).await;
        let mut program = within(bay.beta.call("wiki")).await.unwrap();
        echoed(&mut program, b"ahoy").await;
        bay.org.revoke("relay-1");
        let house = if learns == "beta" { &bay.beta } else { &bay.nas };
        house.state.know(bay.org.knowledge(learns)).unwrap();
        broke(&mut program).await;
        until("nothing is carried", || bay.relays[0].state.meter.relayed.view().open == 0).await;
    }
}

/// The one that waits has nothing to say for as long as nobody wants it.
#[tokio::test]
async fn a_connection_that_waits_at_a_relay_is_not_unused() {
    let bay = Bay::open(1).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_mins(10)).await;
    tokio::time::resume();
    assert!(bay.relays[0].state.meter.relayed.view().waiting > 0);
    assert_eq!(bay.relays[0].state.meter.handshakes().done, 2, "they are those of the beginning");
    within(bay.beta.echoes("wiki")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_to_the_relay_that_breaks_is_found_anew() {
    let bay = Bay::open(1).await;
    let waiting = || bay.relays[0].state.meter.relayed.view().waiting;
    until("it waits", || waiting() == 2).await;
    bay.ways[0].drop_all();
    until("nobody waits", || waiting() == 0).await;
    until("it waits again", || waiting() == 2).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
}
