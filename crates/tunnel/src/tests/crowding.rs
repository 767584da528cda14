//! What many want at once, or one wants too much of: nobody takes it all.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ground::{clock, random};
use identity::certificate::Validity;
use identity::time::Seconds;
use identity::verifier::Side;
use manifest::stored::{Caller, Transport};
use tokio::io::{AsyncWriteExt as _, duplex, split};
use tokio::task::JoinHandle;

use super::closing::{by_quic, by_tls};
use super::scene::{Org, node};
use super::town::{BOTH, House, alpha_and_beta, echo, until, within};
use crate::dial::NoStream;
use crate::door::{CONNECTIONS_OF_ONE, LONG_AT_ONCE, SHORT};
use crate::frame::{Kind, header};
use crate::held::Held;
use crate::line::frames::Frames;
use crate::line::meet::{Shown, meet};

/// Says that it has a `Hello` of so many bytes, and sends half of them.
fn half_a_hello(held: &Arc<Held>, length: usize, sent: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (held, sent) = (Arc::clone(held), Arc::clone(sent));
    let (here, there) = duplex(1 << 12);
    tokio::spawn(async move {
        let (mut hears, mut says) = split(there);
        let (from, mut to) = split(here);
        let mut frames = Frames::new(from);
        let shown = Shown { chain: &[], side: Side::Client };
        let speak = async {
            says.write_all(&header(Kind::Hello, length).unwrap()).await.unwrap();
            says.write_all(&vec![b' '; length / 2]).await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
            let _ = tokio::io::copy(&mut hears, &mut tokio::io::sink()).await;
        };
        let _ = tokio::join!(meet(&held, (&mut frames, &mut to), shown), speak);
    })
}

#[tokio::test]
async fn only_a_few_at_once_make_a_node_keep_long_words() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let sent = Arc::<AtomicUsize>::default();
    let all: Vec<_> = (0..LONG_AT_ONCE * 2).map(|_| half_a_hello(&alpha.held, 1 << 20, &sent)).collect();
    until("as many as may are heard", || sent.load(Ordering::Relaxed) == LONG_AT_ONCE).await;
    // Who is short is heard meanwhile.
    let short = Arc::<AtomicUsize>::default();
    let one = half_a_hello(&alpha.held, SHORT, &short);
    until("it is heard", || short.load(Ordering::Relaxed) == 1).await;
    assert_eq!(sent.load(Ordering::Relaxed), LONG_AT_ONCE);
    all[0].abort();
    until("the next is heard", || sent.load(Ordering::Relaxed) > LONG_AT_ONCE).await;
    all.iter().chain([&one]).for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_node_that_has_all_its_connections_leaves_some_to_others() {
    for transport in BOTH {
        let org = Org::new(&["alpha", "beta", "gamma"]);
        let mut alpha = House::open(&org, "alpha", transport).await;
        alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
        let (mut beta, mut gamma) =
            (House::open(&org, "beta", transport).await, House::open(&org, "gamma", transport).await);
        beta.aim("wiki", "alpha", alpha.address);
        gamma.aim("wiki", "alpha", alpha.address);
        let knock = || alpha.held.door.knock(IpAddr::from([10, 0, 0, 1]), Instant::now()).unwrap();
        let taken: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| knock().let_in(&node("beta")).unwrap()).collect();
        let found = beta.call("wiki").await.unwrap_err();
        assert!(matches!(found, NoStream::NoWay { .. }), "{found}");
        gamma.echoes("wiki").await.unwrap();
        drop(taken);
        beta.echoes("wiki").await.unwrap();
    }
}

/// Whoever has stolen an issuing key gets as far as that.
#[tokio::test]
async fn whoever_is_not_believed_stays_a_stranger_and_has_little_time() {
    let (org, alpha, beta) = alpha_and_beta(Transport::Auto).await;
    let day = Validity::from_now(clock::now(), Seconds::DAY);
    let stolen = org.twisted((&beta.own, "beta"), &random::p256().unwrap(), day, |_| {});
    beta.held.speak(&[stolen]).unwrap();
    let mut ends = by_tls(&beta, &alpha).await;
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    until("both are there", || alpha.held.meter.handshakes().done == 2).await;
    assert_eq!(alpha.held.door.strangers(), 2);
    tokio::time::pause();
    assert!(within(ends.frames.next()).await.is_err(), "nothing is said to it");
    let why = within(line.connection.closed()).await.to_string();
    assert!(why.contains("not believed"), "{why}");
    until("they are gone", || alpha.held.door.strangers() == 0).await;
}
