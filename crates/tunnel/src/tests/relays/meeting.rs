//! Where two meet at a relay, nobody takes the place of others, everybody is counted, and nothing is without an end.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manifest::stored::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use wire::peer::{Declined, Open, Opened};

use crate::accept::by_relay::wait_at_relays;
use crate::frame::format::{DATA, FrameKind, header};
use crate::frame::reader::send_empty;
use crate::limit::connections::ConnectionPermit;
use crate::state::shared::TunnelState;
use crate::tests::relays::relaying::Bay;
use crate::tests::scene::node;
use crate::tests::streams::closing::by_tls;
use crate::tests::town::{House, echoed, until, within};
use crate::transport::tls::{self, TlsConnection};

/// A connection that waits until somebody wants its node.
async fn waits(node: &House, relay: &House) -> JoinHandle<TlsConnection> {
    let mut ends = by_tls(node, relay).await;
    tokio::spawn(async move {
        assert_eq!(ends.ask_and_wait(&Open::Wait).await.unwrap(), Opened::Yes);
        ends
    })
}

async fn ask(mut ends: TlsConnection, wanted: &str) -> (Opened, TlsConnection) {
    let opened = ends.ask_and_wait(&Open::Through(node(wanted))).await.unwrap();
    (opened, ends)
}

/// Both ends of what a relay carries: of `beta`, and of `nas`.
async fn carried(bay: &Bay) -> (TlsConnection, TlsConnection) {
    let waiting = waits(&bay.nas, &bay.relays[0]).await;
    let (opened, near) = within(ask(by_tls(&bay.beta, &bay.relays[0]).await, "nas")).await;
    assert_eq!(opened, Opened::Yes);
    (near, within(waiting).await.unwrap())
}

fn open(bay: &Bay) -> u64 {
    bay.relays[0].state.meter.relayed.view().open
}

#[tokio::test]
async fn whoever_stands_in_line_many_times_has_every_second_turn() {
    let bay = Bay::open(1).await;
    let (relay, mallory) = (&bay.relays[0], House::open(&bay.org, "mallory", Transport::Tls).await);
    let mut lines = Vec::new();
    for _ in 0..120 {
        lines.push(by_tls(&mallory, relay).await);
    }
    let beta = by_tls(&bay.beta, relay).await;
    bay.leave().await;
    let mut crowd: JoinSet<_> = lines.into_iter().map(|ends| ask(ends, "nas")).collect();
    for _ in 64..120 {
        let (opened, _) = within(crowd.join_next()).await.unwrap().unwrap();
        assert_eq!(opened, Opened::No(Declined::NotWaiting));
    }
    let beta = tokio::spawn(ask(beta, "nas"));
    for _ in 0..2 {
        within(waits(&bay.nas, relay).await).await.unwrap();
    }
    assert_eq!(within(beta).await.unwrap().0, Opened::Yes);
}

/// Connections that are left for that node.
fn left(house: &House, of: &str) -> usize {
    let begin = || house.state.limits.begin_handshake(IpAddr::from([10, 0, 0, 1]), Instant::now());
    let guests: Vec<ConnectionPermit> = std::iter::from_fn(|| begin()?.admit_tls(&node(of))).collect();
    guests.len()
}

#[tokio::test]
async fn each_socket_at_a_relay_is_counted_for_as_long_as_it_is_there() {
    let bay = Bay::open_and_leave(1).await;
    let relay = &bay.relays[0];
    let of_both = || (left(relay, "nas"), left(relay, "beta"));
    let (nas, beta) = of_both();
    let waiting = waits(&bay.nas, relay).await;
    bay.until_waited_at(0).await;
    assert_eq!(of_both(), (nas - 1, beta));
    waiting.abort();
    until("it is not counted any more", || of_both() == (nas, beta)).await;
    let mut ways = Vec::new();
    for _ in 0..5 {
        ways.push(carried(&bay).await);
    }
    until("all are open", || open(&bay) == 5).await;
    assert_eq!(of_both(), (nas - 5, beta - 5));
    drop(ways);
    until("nobody is counted any more", || of_both() == (nas, beta)).await;
}

#[tokio::test]
async fn nobody_is_carried_to_itself() {
    let bay = Bay::open_and_leave(1).await;
    let _waiting = waits(&bay.nas, &bay.relays[0]).await;
    bay.until_waited_at(0).await;
    let (opened, _) = within(ask(by_tls(&bay.nas, &bay.relays[0]).await, "nas")).await;
    assert_eq!(opened, Opened::No(Declined::NotWaiting));
    let (opened, _) = within(ask(by_tls(&bay.beta, &bay.relays[0]).await, "nas")).await;
    assert_eq!(opened, Opened::Yes, "it still waits for others");
}

/// Time passes as fast as nobody has anything to do.
#[tokio::test]
async fn what_is_carried_ends_when_one_falls_silent_in_the_middle_of_a_frame() {
    let bay = Bay::open_and_leave(1).await;
    let (mut near, _far) = carried(&bay).await;
    until("it is open", || open(&bay) == 1).await;
    near.to.write_all(&header(FrameKind::Data, DATA).unwrap()).await.unwrap();
    near.to.write_all(b"and no more").await.unwrap();
    near.to.flush().await.unwrap();
    until("it is carried", || bay.relays[0].state.meter.relayed.view().bytes > 0).await;
    tokio::time::pause();
    until("it is over", || open(&bay) == 0).await;
}

#[tokio::test]
async fn what_is_carried_ends_when_nothing_is_said_for_long() {
    let bay = Bay::open_and_leave(1).await;
    let _both = carried(&bay).await;
    until("it is open", || open(&bay) == 1).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_mins(55)).await;
    assert_eq!(open(&bay), 1);
    tokio::time::sleep(Duration::from_mins(10)).await;
    until("it is over", || open(&bay) == 0).await;
}

#[tokio::test]
async fn what_is_carried_ends_when_one_takes_nothing_for_long() {
    let bay = Bay::open_and_leave(1).await;
    let (mut near, mut far) = carried(&bay).await;
    until("it is open", || open(&bay) == 1).await;
    let frame = [header(FrameKind::Data, DATA).unwrap().to_vec(), vec![1; DATA]].concat();
    // Until there is no room left on the whole way.
    while timeout(Duration::from_secs(1), near.to.write_all(&frame)).await.is_ok() {}
    tokio::time::pause();
    for _ in 0..14 {
        tokio::time::sleep(Duration::from_mins(5)).await;
        // It says that it lives, and reads nothing.
        let _ = send_empty(&mut far.to, FrameKind::Still).await;
    }
    until("it is over", || open(&bay) == 0).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_waits_no_longer() {
    let bay = Bay::open_and_leave(1).await;
    let (relay, mallory) = (&bay.relays[0], House::open(&bay.org, "mallory", Transport::Tls).await);
    let beta = tokio::spawn(ask(by_tls(&bay.beta, relay).await, "nas"));
    let mut other = by_tls(&mallory, relay).await;
    assert_eq!(other.ask(&Open::Probe).await.unwrap(), Opened::Yes);
    let is_there =
        || relay.state.callers.views().iter().any(|view| view.node == node("mallory") && view.connections > 0);
    assert!(is_there());
    let other = tokio::spawn(ask(other, "nas"));
    tokio::task::yield_now().await;
    other.abort();
    until("it is gone", || !is_there()).await;
    assert!(!beta.is_finished(), "who came before still waits");
    within(waits(&bay.nas, relay).await).await.unwrap();
    assert_eq!(within(beta).await.unwrap().0, Opened::Yes);
}

#[tokio::test]
async fn a_relay_that_says_yes_and_then_nothing_is_asked_last() {
    let mut bay = Bay::open_and_leave(2).await;
    let first = bay.first_three()[0];
    let well = &bay.relays[1 - first];
    bay.nas.know_relays(&BTreeMap::from([(well.state.node.clone(), well.address)]));
    let _attends = tokio::spawn(wait_at_relays(Arc::clone(&bay.nas.state), bay.nas.dialer.clone()));
    bay.until_waited_at(1 - first).await;
    // Both take whoever comes by the first one, and say nothing.
    let _mute = [waits(&bay.nas, &bay.relays[first]).await, waits(&bay.nas, &bay.relays[first]).await];
    until("both wait", || bay.relays[first].state.meter.relayed.view().waiting == 2).await;
    let asked = |relay: usize| bay.relays[relay].state.meter.relayed.view().carried;
    let call = async { bay.beta.call("wiki").await.unwrap() };
    let wait_less = async {
        until("it goes by the first one", || asked(first) == 1).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
    };
    let (mut one, ()) = within(async { tokio::join!(call, wait_less) }).await;
    echoed(&mut one, b"ahoy").await;
    // Whoever waits there, too, finds nothing wrong with it.
    let (relay, at) = (bay.relays[first].state.node.clone(), bay.relays[first].address.to_string().parse().unwrap());
    let dialer = bay.beta.dialer.clone();
    let _waits = tokio::spawn(async move { dialer.wait_at(&relay, &at).await.is_ok() });
    until("it waits", || bay.relays[first].state.meter.relayed.view().waiting == 2).await;
    // The connection of the first stream is in use.
    let mut two = within(bay.beta.call("wiki")).await.unwrap();
    echoed(&mut two, b"ahoy").await;
    assert_eq!((asked(first), asked(1 - first)), (1, 2));
}

/// Lets one wait, and of those that come then it wakes each second one for nothing, and declines the others.
async fn fickle(state: &Arc<TunnelState>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, state) = (listener.local_addr().unwrap(), Arc::clone(state));
    tokio::spawn(async move {
        let (mut kept, mut wakes) = (None, false);
        while let Ok((socket, _)) = listener.accept().await {
            let config = Arc::new(state.svids.server().unwrap());
            let Ok((mut ends, _)) = tls::receive(&state, config, tls::over(socket)).await else { continue };
            if ends.asked(Duration::from_secs(15)).await.is_none() {
                continue;
            }
            if kept.is_none() {
                kept = Some(ends);
                continue;
            }
            wakes = !wakes;
            let opened = if wakes { Opened::Yes } else { Opened::No(Declined::TooMany) };
            let _ = ends.answer(&opened).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_wake_for_nothing_between_failures_are_not_waited_at_alone() {
    let mut bay = Bay::open_and_leave(4).await;
    let first = bay.first_three();
    let fourth = (0..4).find(|relay| !first.contains(relay)).unwrap();
    let mut at = BTreeMap::from([(bay.relays[fourth].state.node.clone(), bay.relays[fourth].address)]);
    for relay in first {
        let state = &bay.relays[relay].state;
        at.insert(state.node.clone(), fickle(state).await);
    }
    bay.nas.know_relays(&at);
    let _attends = tokio::spawn(wait_at_relays(Arc::clone(&bay.nas.state), bay.nas.dialer.clone()));
    bay.until_waited_at(fourth).await;
}
