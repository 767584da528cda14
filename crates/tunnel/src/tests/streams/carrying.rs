//! Bytes go both ways, ends and breaks are carried, and a slow reader slows the writer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ground::clock;
use identity::verifier::Side;
use manifest::stored::{Caller, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::control::question::ServiceConnection;
use crate::state::streams::{Direction, OpenStream};
use crate::stream::end::StreamEnd;
use crate::stream::pipe::{self, FarEnd, StreamTerms};
use crate::tests::scene::node;
use crate::tests::town::{
    BOTH, House, Middle, alpha_and_beta, broke, echoed, name, pair, service, until, wanted, within,
};
use crate::transport::hello::{ShownChain, prove};

fn beta_may() -> Vec<Caller> {
    vec![Caller::Node(node("beta"))]
}

#[tokio::test]
async fn bytes_go_both_ways_over_either_transport() {
    for transport in BOTH {
        let (_org, alpha, beta) = alpha_and_beta(transport).await;
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        let long: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut from, mut to) = program.split();
        let mut back = vec![0; long.len()];
        let (sent, read) = within(async { tokio::join!(to.write_all(&long), from.read_exact(&mut back)) }).await;
        sent.unwrap();
        read.unwrap();
        assert!(back == long);
        let seen = beta.dialer.views();
        assert_eq!((seen[0].transport, seen[0].streams, seen[0].connections), (transport, 1, 1));
        assert_eq!(alpha.state.streams.open(), 1);
        let count = &alpha.state.meter.counts()[0];
        assert_eq!((count.sent, count.open, count.incoming), (3_000_004, 1, true));
    }
}

#[tokio::test]
async fn an_end_in_one_direction_is_not_one_in_the_other() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        // Answers only when it has heard the end.
        let counts = service(|mut socket| async move {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await.unwrap();
            socket.write_all(all.len().to_string().as_bytes()).await.unwrap();
        });
        alpha.offer("count", counts.await, beta_may());
        beta.aim("count", "alpha", alpha.address);
        let mut program = beta.call("count").await.unwrap();
        program.write_all(&vec![7; 100_000]).await.unwrap();
        program.shutdown().await.unwrap();
        let mut answer = String::new();
        within(program.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(answer, "100000");
        until("both streams are closed", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
    }
}

#[tokio::test]
async fn a_break_on_one_side_is_one_on_the_other() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let (heard, mut told) = mpsc::channel(1);
        let breaks = service(move |mut socket| {
            let heard = heard.clone();
            async move {
                let mut first = [0];
                socket.read_exact(&mut first).await.unwrap();
                if first[0] == b'b' {
                    return socket.set_zero_linger().unwrap();
                }
                socket.write_all(b"!").await.unwrap();
                let mut rest = Vec::new();
                heard.send(socket.read_to_end(&mut rest).await.map_err(|why| why.kind())).await.unwrap();
            }
        });
        alpha.offer("odd", breaks.await, beta_may());
        beta.aim("odd", "alpha", alpha.address);
        let mut program = beta.call("odd").await.unwrap();
        program.write_all(b"b").await.unwrap();
        broke(&mut program).await;

        let mut program = beta.call("odd").await.unwrap();
        echo_one(&mut program).await;
        program.set_zero_linger().unwrap();
        drop(program);
        assert_eq!(within(told.recv()).await.unwrap(), Err(std::io::ErrorKind::ConnectionReset));
        until("both streams are closed", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
        beta.echoes("wiki").await.unwrap();
    }
}

/// As a web server does with an upload that it does not want.
#[tokio::test]
async fn what_a_service_said_before_it_hung_up_arrives() {
    const ANSWER: &[u8] = b"413 too much";
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let full = service(|mut socket| async move {
            socket.read_exact(&mut [0]).await.unwrap();
            // Closed with bytes that nobody read: the other side cannot write any more.
            socket.write_all(ANSWER).await.unwrap();
        });
        alpha.offer("full", full.await, beta_may());
        beta.aim("full", "alpha", alpha.address);
        for _ in 0..20 {
            let mut program = beta.call("full").await.unwrap();
            let (mut from, mut to) = program.split();
            let upload = vec![7; 8 << 20];
            let mut answer = Vec::new();
            let read = async {
                let _ = from.read_to_end(&mut answer).await;
            };
            // It may break, as it does without a tunnel.
            let (_, ()) = within(async { tokio::join!(to.write_all(&upload), read) }).await;
            assert_eq!(answer, ANSWER, "{transport:?}");
        }
        until("both streams are closed", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
    }
}

async fn echo_one(program: &mut tokio::net::TcpStream) {
    program.write_all(b"x").await.unwrap();
    let mut answer = [0];
    within(program.read_exact(&mut answer)).await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_slows_the_writer_and_nothing_is_lost() {
    const ALL: u64 = 200 << 20;
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let written = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&written);
        let pours = service(move |mut socket| {
            let counter = Arc::clone(&counter);
            async move {
                let piece = vec![5; 1 << 16];
                while counter.load(Ordering::Relaxed) < ALL {
                    if socket.write_all(&piece).await.is_err() {
                        return;
                    }
                    counter.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
            }
        });
        alpha.offer("pour", pours.await, beta_may());
        beta.aim("pour", "alpha", alpha.address);
        let mut program = beta.call("pour").await.unwrap();
        let (mut before, mut calm) = (u64::MAX, 0);
        // What the kernel keeps for three connections, a few windows, and no more.
        until("the writer stands still", || {
            let now = written.load(Ordering::Relaxed);
            calm = if now == before { calm + 1 } else { 0 };
            before = now;
            calm > 50
        })
        .await;
        assert!(before < ALL / 2, "{before} bytes were taken from the writer");
        beta.echoes("wiki").await.unwrap();
        program.shutdown().await.unwrap();
        let read = within(tokio::io::copy(&mut program, &mut tokio::io::sink())).await.unwrap();
        assert_eq!(read, ALL);
    }
}

/// Seventeen seconds: longer than a peer may be silent. The kernel's own bound would end it.
#[tokio::test]
async fn who_reads_slowly_is_not_taken_for_dead_and_who_is_dead_is_found() {
    let (_org, mut alpha, mut beta) = alpha_and_beta(Transport::Tls).await;
    let pours = service(|mut socket| async move {
        let _ = socket.write_all(&vec![5; 64 << 20]).await;
    });
    alpha.offer("pour", pours.await, beta_may());
    beta.aim("pour", "alpha", alpha.address);
    let mut slow = beta.call("pour").await.unwrap();

    let middle = Middle::to(alpha.address).await;
    beta.aim("wiki", "alpha", middle.address);
    let (mut idle, inner) = pair().await;
    let alive = beta.call("wiki").await;
    // A connection of its own: the first is in use.
    let stream = beta.dialer.open(&beta.own, &wanted("wiki")).await.unwrap();
    let carried = tokio::spawn(stream.carry(inner));
    echoed(&mut idle, b"there?").await;
    middle.fall_silent();
    idle.write_all(b"are you still there?").await.unwrap();

    broke(&mut idle).await;
    carried.await.unwrap();
    slow.shutdown().await.unwrap();
    let read = within(tokio::io::copy(&mut slow, &mut tokio::io::sink())).await.unwrap();
    assert_eq!(read, 64 << 20, "who was only slow has it all");
    drop(alive);
}

#[tokio::test]
async fn a_service_can_ask_who_calls() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let tells = service(|mut socket| async move {
            let from = socket.peer_addr().unwrap().to_string();
            socket.write_all(from.as_bytes()).await.unwrap();
            let _ = socket.read(&mut [0]).await;
        });
        let near = tells.await;
        alpha.offer("tell", near, beta_may());
        beta.aim("tell", "alpha", alpha.address);
        let mut program = beta.call("tell").await.unwrap();
        let mut seen = vec![0; 100];
        let count = within(program.read(&mut seen)).await.unwrap();
        let far: SocketAddr = String::from_utf8_lossy(&seen[..count]).parse().unwrap();
        let asked = |connection| alpha.state.streams.caller(connection);
        for fits in [ServiceConnection::Between { far, near }, ServiceConnection::From(far)] {
            let caller = asked(fits).unwrap();
            assert_eq!((caller.principal, caller.service, caller.at), (beta.own.clone(), name("tell"), near));
        }
        // Somebody of this machine has the same far end at another service.
        let other = SocketAddr::new(near.ip(), near.port() ^ 1);
        assert_eq!(asked(ServiceConnection::Between { far, near: other }), None);
        assert_eq!(asked(ServiceConnection::Between { far: near, near: far }), None);
        program.shutdown().await.unwrap();
        until("it is gone", || asked(ServiceConnection::From(far)).is_none()).await;
    }
}

/// A place in the registry for the house's own node, as if it called itself.
pub fn at_home(house: &House) -> OpenStream {
    let (state, chain) = (&house.state, house.state.svids.chain_of(&house.own).unwrap());
    let trust = &state.policy.load().trust;
    let svid = prove(state, ShownChain { chain: &chain, side: Side::Client }).unwrap();
    let peer = trust.recognize(&svid, &trust.hello().unwrap().presented, clock::now()).unwrap();
    state.streams.register(Arc::new(peer), name("wiki"), Direction::In)
}

#[tokio::test]
async fn whoever_called_is_told_no_longer_than_the_service_has_the_connection() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let (state, stream) = (&alpha.state, at_home(&alpha));
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    stream.is_seen_as(at("127.0.0.1:4000"), at("127.0.0.1:80"));
    // As a service sees it that listens for both versions.
    let mapped = ServiceConnection::Between { far: at("[::ffff:127.0.0.1]:4000"), near: at("[::ffff:127.0.0.1]:80") };
    assert!(state.streams.caller(mapped).is_some());
    stream.lets_go();
    assert_eq!(state.streams.caller(mapped), None);
    assert_eq!(state.streams.caller(ServiceConnection::From(at("127.0.0.1:4000"))), None);
}

#[tokio::test]
async fn a_stream_that_carries_nothing_for_too_long_ends() {
    let (_org, alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let (state, stream) = (&alpha.state, at_home(&alpha));
    let meter = state.meter.service(&name("wiki"), &alpha.own, true);
    let mut terms = StreamTerms { stream, meter, direction: Direction::In, idle: Duration::from_secs(1) };
    let ((mut program, near), (mut service, far)) = (pair().await, pair().await);
    let carried = tokio::spawn(async move { pipe::carry(near.into(), FarEnd::Here(far.into()), &mut terms).await });
    for _ in 0..5 {
        program.write_all(b"x").await.unwrap();
        service.read_exact(&mut [0]).await.unwrap();
    }
    let ended = within(carried).await.unwrap();
    assert!(matches!(ended.end, StreamEnd::Idle), "{}", ended.end);
    assert_eq!((ended.sent, ended.received), (0, 5), "the service is near");
    broke(&mut program).await;
    broke(&mut service).await;
}
