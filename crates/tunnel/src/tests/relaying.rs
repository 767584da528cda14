//! A node without an address is reached by relays, which read nothing and let nobody in.

use std::collections::BTreeMap;
use std::sync::Arc;

use manifest::stored::{Caller, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::scene::{Org, node};
use super::town::{House, Middle, broke, echo, echoed, until, within};
use crate::attend::attend;
use crate::dial::NoStream;

/// `nas` has a wiki and no address, `beta` calls it, `relay-1` and `relay-2` carry.
struct Bay {
    org: Org,
    nas: House,
    beta: House,
    relays: Vec<House>,
    /// The way to each relay.
    ways: Vec<Middle>,
    waits: JoinHandle<()>,
}

impl Bay {
    async fn open(count: usize) -> Self {
        let names = ["nas", "beta", "relay-1", "relay-2"];
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
            relays.iter().zip(&ways).map(|(relay, way)| (relay.held.node.clone(), way.address)).collect();
        let mut nas = House::open(&org, "nas", Transport::Tls).await;
        let mut beta = House::open(&org, "beta", Transport::Tls).await;
        nas.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
        nas.know_relays(&at);
        beta.aim_hidden("wiki", "nas");
        beta.know_relays(&at);
        let waits = tokio::spawn(attend(Arc::clone(&nas.held), nas.dialer.clone()));
        let bay = Self { org, nas, beta, relays, ways, waits };
        for relay in 0..count {
            bay.until_waited_at(relay).await;
        }
        bay
    }

    async fn until_waited_at(&self, relay: usize) {
        until("it waits at the relay", || self.relays[relay].held.meter.relayed.view().waiting > 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_address_is_reached_by_a_relay_and_a_connection_is_used_again() {
    let bay = Bay::open(1).await;
    for _ in 0..5 {
        within(bay.beta.echoes("wiki")).await.unwrap();
    }
    let relayed = bay.relays[0].held.meter.relayed.view();
    assert!((1..5).contains(&relayed.carried), "{} ways for five streams", relayed.carried);
    let view = bay.beta.dialer.views().into_iter().find(|view| view.node == node("nas")).unwrap();
    assert_eq!(view.through, Some(node("relay-1")));
    assert!(relayed.bytes > 1_000);
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
    let used = bay.relays.iter().position(|relay| relay.held.meter.relayed.view().open > 0).unwrap();
    bay.ways[used].die();
    broke(&mut program).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
    assert_eq!(bay.relays[1 - used].held.meter.relayed.view().carried, 1);
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
    let bay = Bay::open(1).await;
    bay.waits.abort();
    until("nobody waits", || bay.relays[0].held.meter.relayed.view().waiting == 0).await;
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
    bay.relays[0].held.know(bay.org.knowledge("relay-1")).unwrap();
    broke(&mut program).await;
    let refused = within(bay.beta.call("wiki")).await.err();
    assert!(matches!(refused, Some(NoStream::NoWay { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_to_the_relay_that_breaks_is_found_anew() {
    let bay = Bay::open(1).await;
    let waiting = || bay.relays[0].held.meter.relayed.view().waiting;
    until("it waits", || waiting() == 2).await;
    bay.ways[0].drop_all();
    until("nobody waits", || waiting() == 0).await;
    until("it waits again", || waiting() == 2).await;
    within(bay.beta.echoes("wiki")).await.unwrap();
}
