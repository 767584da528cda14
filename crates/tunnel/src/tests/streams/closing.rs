//! Connections end when the operators take a peer back, or when nobody uses them; not before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use manifest::stored::{Caller, Transport};
use quinn::{Endpoint, VarInt};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use wire::peer::{Open, Opened};

use crate::frame::format::DATA;
use crate::limit::connections::WIDE_OF_ONE;
use crate::stream::end::SILENT;
use crate::tests::scene::node;
use crate::tests::streams::cutting::{Shared, lines};
use crate::tests::town::{BOTH, House, alpha_and_beta, echoed, name, service, until, within};
use crate::transport::tcp::settle;
use crate::transport::{quic, tls};

/// A connection of `from`, held by nobody but the test.
pub async fn by_tls(from: &House, to: &House) -> tls::TlsConnection {
    let socket = TcpStream::connect(to.address).await.unwrap();
    settle(&socket).unwrap();
    let config = from.state.svids.client(&from.own).unwrap();
    tls::call(&from.state, config, tls::over(socket)).await.unwrap().0
}

pub async fn by_quic(from: &House, to: &House, window: u32) -> (Endpoint, quic::QuicConnection) {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut config = quic::client(&from.state.svids.client(&from.own).unwrap()).unwrap();
    let mut transport = quic::transport();
    transport.receive_window(VarInt::from_u32(window));
    config.transport_config(Arc::new(transport));
    let (line, _) = quic::call(&from.state, &endpoint, config, to.address).await.unwrap();
    (endpoint, line)
}

/// Well before those who call let go of what they do not use.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it was not at once")
}

#[tokio::test]
async fn a_connection_that_carries_nothing_ends_when_its_peer_is_revoked() {
    let (mut org, alpha, beta) = alpha_and_beta(Transport::Auto).await;
    let mut ends = by_tls(&beta, &alpha).await;
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    assert_eq!(ends.ask(&Open::Probe).await.unwrap(), Opened::Yes);
    assert_eq!(line.ask(&Open::Probe).await.unwrap().0, Opened::Yes);
    // A head that revokes nobody ends nothing.
    org.publish(|_| {});
    alpha.state.know(org.knowledge("alpha")).unwrap();
    assert_eq!(ends.ask(&Open::Probe).await.unwrap(), Opened::Yes);
    assert_eq!(line.ask(&Open::Probe).await.unwrap().0, Opened::Yes);
    org.revoke("beta");
    alpha.state.know(org.knowledge("alpha")).unwrap();
    let why = within(line.connection.closed()).await.to_string();
    assert!(why.contains("taken back"), "{why}");
    // Whoever asks goes on for ever, if nobody looks.
    within(async { while ends.ask(&Open::Probe).await.is_ok() {} }).await;
}

#[tokio::test]
async fn a_kept_connection_to_a_revoked_node_is_let_go() {
    for transport in BOTH {
        let (mut org, _alpha, beta) = alpha_and_beta(transport).await;
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        program.shutdown().await.unwrap();
        let connections = || beta.dialer.views().first().map_or(0, |view| view.connections);
        until("it is free", || beta.state.streams.open() == 0 && connections() == 1).await;
        org.revoke("alpha");
        beta.state.know(org.knowledge("beta")).unwrap();
        soon(until("it is gone", || connections() == 0)).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_forbidden_while_its_caller_is_told_is_not_open() {
    let (_org, mut alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let chatty = service(|mut socket| async move {
        let _ = socket.write_all(&vec![1; 1 << 20]).await;
        std::future::pending::<()>().await;
    });
    alpha.offer("news", chatty.await, vec![Caller::Node(node("beta"))]);
    let written = Arc::<Mutex<Vec<u8>>>::default();
    let _writer = alpha.state.log.write_to(Shared(Arc::clone(&written))).unwrap().unwrap();
    // Nobody reads what fills the window, so the next answer cannot be sent.
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 18).await;
    let (opened, _unread) = line.ask(&Open::Service(name("news"))).await.unwrap();
    assert_eq!(opened, Opened::Yes);
    let carried = |service: &str| {
        let of = alpha.state.meter.counts().into_iter().find(|count| count.service == name(service));
        of.map(|count| count.received)
    };
    // What was counted has gone out whole; the next does not, since what was said before it takes room, too.
    until("the window is full", || carried("news").is_some_and(|bytes| bytes > (1 << 18) - 2 * DATA as u64)).await;
    let line = Arc::new(line);
    let asking = Arc::clone(&line);
    let asked = tokio::spawn(async move { asking.ask(&Open::Service(name("wiki"))).await.map(|(opened, _)| opened) });
    until("the answer is about to be sent", || carried("wiki").is_some()).await;
    alpha.allow("wiki", Vec::new());
    let refused = || lines(&written).into_iter().find(|line| line["event"] == "refused");
    until("it is refused after all", || refused().is_some()).await;
    assert_eq!(refused().unwrap()["reason"], "the access table does not allow it");
    assert_eq!(alpha.state.streams.open(), 1, "the other one stays");
    asked.abort();
}

/// Time passes as fast as nobody has anything to do.
#[tokio::test]
async fn a_connection_over_quic_without_streams_is_not_kept_for_ever() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let (_one, unused) = by_quic(&beta, &alpha, 1 << 20).await;
    let (_two, used) = by_quic(&beta, &alpha, 1 << 20).await;
    let (opened, mut ends) = used.ask(&Open::Service(name("wiki"))).await.unwrap();
    assert_eq!(opened, Opened::Yes);
    tokio::time::pause();
    let why = within(unused.connection.closed()).await.to_string();
    assert!(why.contains("unused"), "{why}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(!used.is_over(), "{:?}", used.connection.close_reason());
    tokio::time::resume();
    ends.to.write_all(b"ahoy").await.unwrap();
    let mut back = [0; 4];
    within(ends.from.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"ahoy");
    ends.to.finish().unwrap();
    drop(ends);
    until("the stream is over", || alpha.state.streams.open() == 0).await;
    tokio::time::pause();
    let why = within(used.connection.closed()).await.to_string();
    assert!(why.contains("unused"), "{why}");
}

/// Else everything that a node sends to such a service would stay, on one connection after the other.
#[tokio::test]
async fn what_a_service_does_not_take_is_forgotten_when_its_caller_is_gone() {
    let (_org, mut alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let deaf = service(|socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    });
    alpha.offer("deaf", deaf.await, vec![Caller::Node(node("beta"))]);
    let (_endpoint, line) = by_quic(&beta, &alpha, 1 << 20).await;
    let (opened, mut ends) = line.ask(&Open::Service(name("deaf"))).await.unwrap();
    assert_eq!(opened, Opened::Yes);
    let pours = async { while ends.to.write_all(&vec![1; 1 << 16]).await.is_ok() {} };
    assert!(tokio::time::timeout(Duration::from_secs(2), pours).await.is_err(), "it takes no end of it");
    let room =
        || (0..WIDE_OF_ONE).map_while(|_| alpha.state.limits.take_window(&node("beta"))).collect::<Vec<_>>().len();
    line.connection.close(0_u32.into(), b"");
    drop(line);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((alpha.state.streams.open(), room()), (1, WIDE_OF_ONE - 1), "it may still take it");
    tokio::time::pause();
    tokio::time::sleep(SILENT * 2).await;
    tokio::time::resume();
    until("it is over", || (alpha.state.streams.open(), room()) == (0, WIDE_OF_ONE)).await;
}
