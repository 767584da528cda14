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
use pki_types::CertificateDer;
use quinn::{Endpoint, RecvStream, SendStream};
use tokio::io::{AsyncWriteExt as _, duplex, split};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use wire::peer::{Knows, Open, Opened};

use crate::dial::no_stream::NoStream;
use crate::frame::format::{FrameKind, header};
use crate::frame::reader::FrameReader;
use crate::limit::bounds::CONNECTIONS_OF_ONE;
use crate::limit::connections::{ConnectionPermit, QUIC_OF_ONE, WIDE_OF_ONE};
use crate::limit::large::{LARGE_ABOVE, LARGE_AT_ONCE, LARGE_OF_ONE};
use crate::state::shared::TunnelState;
use crate::tests::scene::{Org, node};
use crate::tests::streams::closing::{by_quic, by_tls};
use crate::tests::town::{House, Serves, alpha_and_beta, echo, name, until, wanted, within};
use crate::transport::hello::{self, NoHello, ShownChain};
use crate::transport::protocol::Protocol;
use crate::transport::quic::{self, OPENING_AT_ONCE, QuicConnection, STREAMS_AT_FIRST};

/// Says that it has a `Hello` of so many bytes, and sends half of them.
fn half_a_hello(
    state: &Arc<TunnelState>,
    svid: usize,
    side: Side,
    length: usize,
    sent: &Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let (state, sent) = (Arc::clone(state), Arc::clone(sent));
    let (here, there) = duplex(1 << 12);
    tokio::spawn(async move {
        let (mut hears, mut says) = split(there);
        let (from, mut to) = split(here);
        let mut frames = FrameReader::new(from);
        let chain = [CertificateDer::from(svid.to_be_bytes().to_vec())];
        let shown = ShownChain { chain: &chain, side };
        let speak = async {
            says.write_all(&header(FrameKind::Hello, length).unwrap()).await.unwrap();
            says.write_all(&vec![b' '; length / 2]).await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
            let _ = tokio::io::copy(&mut hears, &mut tokio::io::sink()).await;
        };
        let _ = tokio::join!(hello::exchange(&state, &mut frames, &mut to, shown), speak);
    })
}

/// It may be long, and those who hear it may take their time.
#[tokio::test]
async fn what_is_said_to_everybody_is_kept_once() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let trust = Arc::clone(&alpha.state.policy.load().trust);
    let one = trust.hello_frame().unwrap().unwrap();
    assert!(Arc::ptr_eq(&one, &trust.hello_frame().unwrap().unwrap()));
    let mut other = Knows { suspended: None, ..trust.knows() };
    assert!(trust.news_for(&other).unwrap().is_none());
    other.place.head = 0;
    let news = trust.news_for(&other).unwrap().unwrap();
    assert!(Arc::ptr_eq(&news, &trust.news_for(&other).unwrap().unwrap()));
}

#[tokio::test]
async fn only_a_few_at_once_make_a_node_keep_long_words() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let sent = Arc::<AtomicUsize>::default();
    let all: Vec<_> =
        (0..LARGE_AT_ONCE * 2).map(|n| half_a_hello(&alpha.state, n, Side::Client, 1 << 20, &sent)).collect();
    until("as many as may are heard", || sent.load(Ordering::Relaxed) == LARGE_AT_ONCE).await;
    // Who is short is heard meanwhile.
    let short = Arc::<AtomicUsize>::default();
    let one = half_a_hello(&alpha.state, 0, Side::Client, LARGE_ABOVE, &short);
    until("it is heard", || short.load(Ordering::Relaxed) == 1).await;
    // And who is called by this node.
    let two = half_a_hello(&alpha.state, 0, Side::Server, 1 << 20, &short);
    until("it is heard, too", || short.load(Ordering::Relaxed) == 2).await;
    assert_eq!(sent.load(Ordering::Relaxed), LARGE_AT_ONCE);
    all[0].abort();
    until("the next is heard", || sent.load(Ordering::Relaxed) > LARGE_AT_ONCE).await;
    all.iter().chain([&one, &two]).for_each(JoinHandle::abort);
}

#[tokio::test]
async fn who_says_long_words_many_times_at_once_leaves_room_to_others() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let [own, other] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let hello = |svid, sent| half_a_hello(&alpha.state, svid, Side::Client, 1 << 20, sent);
    let mut all: Vec<_> = (0..LARGE_AT_ONCE).map(|_| hello(1, &own)).collect();
    until("some are heard", || own.load(Ordering::Relaxed) == LARGE_OF_ONE).await;
    all.push(hello(2, &other));
    until("another is heard", || other.load(Ordering::Relaxed) == 1).await;
    assert_eq!(own.load(Ordering::Relaxed), LARGE_OF_ONE);
    all.iter().for_each(JoinHandle::abort);
}

/// `beta` has so many connections to `alpha` by this transport; `gamma` has none.
async fn has_all(protocol: Protocol, most: usize) -> ([House; 3], Vec<ConnectionPermit>) {
    let transport = if protocol == Protocol::Tls { Transport::Tls } else { Transport::Quic };
    let org = Org::new(&["alpha", "beta", "gamma"]);
    let mut alpha = House::open(&org, "alpha", transport).await;
    alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
    let (mut beta, mut gamma) =
        (House::open(&org, "beta", transport).await, House::open(&org, "gamma", transport).await);
    beta.aim("wiki", "alpha", alpha.address);
    gamma.aim("wiki", "alpha", alpha.address);
    let begin = || alpha.state.limits.begin_handshake(IpAddr::from([10, 0, 0, 1]), Instant::now()).unwrap();
    let admit = || match protocol {
        Protocol::Tls => begin().admit_tls(&node("beta")),
        Protocol::Quic => begin().admit_quic(&node("beta")),
    };
    let taken = (0..most).map(|_| admit().unwrap()).collect();
    ([alpha, beta, gamma], taken)
}

#[tokio::test]
async fn a_node_that_has_all_its_connections_leaves_some_to_others() {
    let ([_alpha, beta, gamma], taken) = has_all(Protocol::Tls, CONNECTIONS_OF_ONE).await;
    let found = beta.call("wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::NoWay { .. }), "{found}");
    gamma.echoes("wiki").await.unwrap();
    drop(taken);
    beta.echoes("wiki").await.unwrap();
}

#[tokio::test]
async fn a_node_that_has_all_its_connections_over_quic_comes_over_tls() {
    let ([_alpha, beta, gamma], _taken) = has_all(Protocol::Quic, QUIC_OF_ONE).await;
    let by = async |house: &House| house.dialer.open(&house.own, &wanted("wiki")).await.unwrap().transport();
    assert_eq!((by(&beta).await, by(&gamma).await), ("tls", "quic"));
    beta.echoes("wiki").await.unwrap();
}

/// Most times it is told before it has met anybody there; but the two are as fast as each other.
#[tokio::test]
async fn one_that_hears_late_that_it_is_one_too_many_over_quic_comes_over_tls_too() {
    let org = Org::new(&["alpha", "beta"]);
    let mut alpha = House::open_with(&org, "alpha", Transport::Quic, Serves::TlsOnly).await;
    alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
    let mut beta = House::open(&org, "beta", Transport::Quic).await;
    beta.aim("wiki", "alpha", alpha.address);
    let server = quic::server(alpha.state.svids.server().unwrap()).unwrap();
    let crowded = Endpoint::server(server, alpha.address).unwrap();
    let state = Arc::clone(&alpha.state);
    tokio::spawn(async move {
        while let Some(incoming) = crowded.accept().await {
            let (line, _) = quic::receive(&state, incoming).await.unwrap();
            let _asked = line.next().await.unwrap();
            line.connection.close(quic::CROWDED, b"too many");
        }
    });
    let open = async || beta.dialer.open(&beta.own, &wanted("wiki")).await.map(|stream| stream.transport());
    assert_eq!(open().await.unwrap(), "tls");
    assert_eq!(open().await.unwrap(), "tls");
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// In QUIC, whoever says a byte on a stream has begun all those before it.
#[tokio::test]
async fn one_byte_begins_streams_without_end_and_few_are_waited_for() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    beta.echoes("wiki").await.unwrap();
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    let (opened, mut before) = line.ask(&Open::Service(name("wiki"))).await.unwrap();
    assert_eq!(opened, Opened::Yes);
    until("only that one is open", || alpha.state.streams.open() == 1 && beta.state.streams.open() == 0).await;
    let calm = tasks();
    let mut begun = Vec::new();
    // The words had one, and the wiki has one.
    for _ in 2..STREAMS_AT_FIRST {
        begun.push(within(line.connection.open_bi()).await.unwrap());
    }
    begun.last_mut().unwrap().0.write_all(&[3]).await.unwrap();
    until("some are waited for", || tasks() >= calm + OPENING_AT_ONCE).await;
    for _ in 0..20 {
        before.to.write_all(b"ahoy").await.unwrap();
        let mut back = [0; 4];
        within(before.from.read_exact(&mut back)).await.unwrap();
    }
    beta.echoes("wiki").await.unwrap();
    until("it is over", || alpha.state.streams.open() == 1 && beta.state.streams.open() == 0).await;
    assert!(tasks() <= calm + OPENING_AT_ONCE, "{} and {calm}", tasks());
    // Those that say that they want nothing make room for those that do.
    drop(begun);
    assert_eq!(line.ask(&Open::Service(name("wiki"))).await.unwrap().0, Opened::Yes);
}

#[tokio::test]
async fn a_connection_whose_streams_are_in_use_may_have_more() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS_AT_FIRST {
        let (opened, ends) = line.ask(&Open::Service(name("wiki"))).await.unwrap();
        assert_eq!(opened, Opened::Yes);
        open.push(ends);
    }
    assert_eq!(alpha.state.streams.open(), open.len());
}

/// What is sent there and read by nobody stays in memory, on as many connections as a node opens.
#[tokio::test]
async fn a_node_has_room_for_much_that_nobody_reads_on_a_few_connections() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let mut lines = Vec::new();
    for _ in 0..=WIDE_OF_ONE {
        let (endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
        let (opened, _ends) = line.ask(&Open::Service(name("wiki"))).await.unwrap();
        assert_eq!(opened, Opened::Yes, "it is carried all the same");
        lines.push((endpoint, line));
    }
    let has_room = |line: &QuicConnection| line.connection.stats().frame_rx.max_data > 0;
    until("those that have room are told", || lines[..WIDE_OF_ONE].iter().all(|(_, line)| has_room(line))).await;
    assert!(!has_room(&lines[WIDE_OF_ONE].1));
    assert!(
        alpha.state.limits.take_window(&node("beta")).is_none()
            && alpha.state.limits.take_window(&node("gamma")).is_some()
    );
    drop(lines);
    until("it is given back", || alpha.state.limits.take_window(&node("beta")).is_some()).await;
}

/// Else everybody could leave a megabyte there, for ever.
#[tokio::test]
async fn what_comes_on_the_first_stream_after_the_words_is_not_kept() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let server = quic::server(alpha.state.svids.server().unwrap()).unwrap();
    let own = Endpoint::server(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let client = quic::client(&beta.state.svids.client(&beta.own).unwrap()).unwrap();
    // Who calls, and then who is called.
    let calls = own.connect_with(client.clone(), alpha.address, "127.0.0.1").unwrap().await.unwrap();
    let (mut to, mut from) = calls.open_bi().await.unwrap();
    says_who_it_is(&beta, &mut to, &mut from, Side::Server).await;
    assert_eq!(within(to.stopped()).await.unwrap(), Some(0_u32.into()));
    let called = async {
        let incoming = own.accept().await.unwrap().await.unwrap();
        let (mut to, mut from) = incoming.accept_bi().await.unwrap();
        says_who_it_is(&alpha, &mut to, &mut from, Side::Client).await;
        within(to.stopped()).await.unwrap()
    };
    let address = own.local_addr().unwrap();
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let (stopped, line) = tokio::join!(called, quic::call(&beta.state, &endpoint, client, address));
    assert!(line.is_ok());
    assert_eq!(stopped, Some(0_u32.into()));
}

/// And does not look at whom it met.
async fn says_who_it_is(house: &House, to: &mut SendStream, from: &mut RecvStream, side: Side) {
    let shown = ShownChain { chain: &[], side };
    let met = hello::exchange(&house.state, &mut FrameReader::new(from), to, shown).await;
    assert!(matches!(met, Err(NoHello::NoChain)));
}

/// Whoever has stolen an issuing key gets as far as that.
#[tokio::test]
async fn whoever_is_not_believed_stays_a_stranger_and_has_little_time() {
    let (org, alpha, beta) = alpha_and_beta(Transport::Auto).await;
    let day = Validity::from_now(clock::now(), Seconds::DAY);
    let stolen = org.twisted(&beta.own, "beta", &random::p256().unwrap(), day, |_| {});
    beta.state.svids.replace(&[stolen]).unwrap();
    let mut ends = by_tls(&beta, &alpha).await;
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    until("both are there", || alpha.state.meter.handshakes().done == 2).await;
    assert_eq!(alpha.state.limits.strangers(), 2);
    tokio::time::pause();
    assert!(within(ends.frames.next()).await.is_err(), "nothing is said to it");
    let why = within(line.connection.closed()).await.to_string();
    assert!(why.contains("not believed"), "{why}");
    until("they are gone", || alpha.state.limits.strangers() == 0).await;
}
