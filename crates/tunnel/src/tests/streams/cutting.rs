//! A change of access cuts what it forbids, at once, and touches nothing else; under load, too.

use std::io::{ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use identity::time::Seconds;
use manifest::stored::{Access, Caller, Stale, Transport};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wire::peer::{Declined, Open, Opened};

use crate::access::denied::Denied;
use crate::control::question::ServiceConnection;
use crate::dial::no_stream::NoStream;
use crate::frame::format::{DATA, FrameKind};
use crate::state::socket::Socket;
use crate::state::streams::Sockets;
use crate::tests::scene::{Org, node};
use crate::tests::streams::carrying::at_home;
use crate::tests::streams::closing::by_tls;
use crate::tests::town::{BOTH, House, alpha_and_beta, broke, echo, echoed, name, pair, service, until, within};

fn may(nodes: &[&str]) -> Vec<Caller> {
    nodes.iter().map(|name| Caller::Node(node(name))).collect()
}

#[tokio::test]
async fn what_a_new_table_forbids_is_cut_and_the_rest_goes_on() {
    for transport in BOTH {
        let org = Org::new(&["alpha", "beta", "gamma"]);
        let mut alpha = House::open(&org, "alpha", transport).await;
        alpha.offer("wiki", echo().await, may(&["beta", "gamma"]));
        let (written, log) = (Arc::<Mutex<Vec<u8>>>::default(), &alpha.state.log);
        let writer = log.write_to(Shared(Arc::clone(&written))).unwrap().unwrap();
        let mut programs = Vec::new();
        let mut houses = Vec::new();
        for at in ["beta", "gamma"] {
            let mut house = House::open(&org, at, transport).await;
            house.aim("wiki", "alpha", alpha.address);
            let mut program = house.call("wiki").await.unwrap();
            echoed(&mut program, b"ahoy").await;
            programs.push(program);
            houses.push(house);
        }
        alpha.allow("wiki", may(&["gamma"]));
        broke(&mut programs[0]).await;
        echoed(&mut programs[1], b"still here").await;
        let found = houses[0].call("wiki").await.map(drop).unwrap_err();
        assert!(matches!(found, NoStream::Declined { why: Declined::NotAllowed, .. }), "{found}");
        until("all is written", || lines(&written).len() == 4).await;
        let beta = lines(&written).into_iter().filter(|line| line["node"] == "beta");
        let told: Vec<_> = beta.map(|line| (line["event"].clone(), line["reason"].clone())).collect();
        let reason = "the access table does not allow it";
        assert_eq!(
            told,
            [
                ("opened".into(), serde_json::Value::Null),
                ("cut".into(), reason.into()),
                ("refused".into(), reason.into())
            ]
        );
        drop(writer);
    }
}

#[derive(Clone)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn lines(written: &Mutex<Vec<u8>>) -> Vec<serde_json::Value> {
    let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// One thread runs all that carries, and it does nothing else meanwhile.
#[tokio::test]
async fn a_service_has_lost_whom_a_new_table_forbids_before_anybody_who_carries_is_asked() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        alpha.offer("news", listener.local_addr().unwrap(), may(&["beta"]));
        beta.aim("news", "alpha", alpha.address);
        let (mut programs, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            programs.push(beta.call("news").await.unwrap());
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            taken.push(socket);
        }
        let read = |socket: &mut std::net::TcpStream| Read::read(socket, &mut [0; 8]).map_err(|why| why.kind());
        for socket in &mut taken {
            assert_eq!(read(socket), Err(ErrorKind::WouldBlock));
        }
        let (far, near) = (taken[0].peer_addr().unwrap(), taken[0].local_addr().unwrap());
        let asked = |alpha: &House| alpha.state.streams.caller(ServiceConnection::Between { far, near });
        assert!(asked(&alpha).is_some());
        alpha.allow("news", Vec::new());
        for socket in &mut taken {
            assert_eq!(read(socket), Err(ErrorKind::ConnectionReset), "{transport:?}");
        }
        assert_eq!(asked(&alpha), None, "anybody may have that address by now");
        for mut program in programs {
            broke(&mut program).await;
        }
        until("nothing is open", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
    }
}

/// A connection between nodes carries one stream after the other: the next may be one that is allowed.
#[tokio::test]
async fn what_a_stream_has_let_go_of_is_not_broken_off_and_what_may_be_is_told() {
    let (_org, mut alpha, _beta) = alpha_and_beta(Transport::Tls).await;
    let (before, after) = (at_home(&alpha), at_home(&alpha));
    let ((mut kept, one), (mut lost, other)) = (pair().await, pair().await);
    let (one, other) = (Socket::from(one), Socket::from(other));
    before.goes_over(Sockets { near: None, far: Some(one.reset_handle()) });
    after.goes_over(Sockets { near: None, far: Some(other.reset_handle()) });
    assert_eq!(before.lets_go(), None);
    alpha.allow("wiki", Vec::new());
    assert_eq!(after.lets_go(), Some(Denied::NotAllowed));
    broke(&mut lost).await;
    (&one).write_all(b"ahoy").await.unwrap();
    let mut told = [0; 4];
    within(kept.read_exact(&mut told)).await.unwrap();
    assert_eq!(&told, b"ahoy");
}

#[tokio::test]
async fn a_writer_that_never_stops_is_cut_too() {
    for transport in BOTH {
        let (_org, mut alpha, beta) = alpha_and_beta(transport).await;
        let program = beta.call("wiki").await.unwrap();
        let (mut from, mut to) = program.into_split();
        let writes = tokio::spawn(async move { while to.write_all(&vec![1; 1 << 16]).await.is_ok() {} });
        let reads = tokio::spawn(async move {
            let mut room = vec![0; 1 << 16];
            while from.read(&mut room).await.is_ok_and(|count| count > 0) {}
        });
        until("much has passed", || alpha.state.meter.counts().iter().any(|count| count.received > 8 << 20)).await;
        alpha.allow("wiki", Vec::new());
        within(writes).await.unwrap();
        within(reads).await.unwrap();
        until("nothing is open", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
    }
}

/// What lies in the kernel of the node that has the service, too.
#[tokio::test]
async fn what_a_caller_has_not_taken_when_it_is_cut_is_lost_to_it() {
    let (_org, mut alpha, beta) = alpha_and_beta(Transport::Tls).await;
    let chatty = service(|mut socket| async move { while socket.write_all(&vec![1; 1 << 16]).await.is_ok() {} });
    alpha.offer("news", chatty.await, may(&["beta"]));
    let mut ends = by_tls(&beta, &alpha).await;
    assert_eq!(ends.ask(&Open::Service(name("news"))).await.unwrap(), Opened::Yes);
    let counts = || alpha.state.meter.counts().into_iter().find(|count| count.service == name("news"));
    let carried = || counts().map_or(0, |count| count.received);
    let mut before = 0;
    // Nobody reads, so at some time no more is taken.
    while before == 0 || carried() > before {
        before = carried();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    alpha.allow("news", Vec::new());
    until("it is cut", || alpha.state.streams.open() == 0).await;
    let (mut taken, mut room) = (0, vec![0; DATA]);
    within(async {
        while let Ok((FrameKind::Data, length)) = ends.frames.next().await {
            let mut left = length;
            while left > 0 {
                let most = left.min(DATA);
                let Ok(count) = ends.frames.some(&mut room[..most]).await else { return };
                (taken, left) = (taken + count as u64, left - count);
            }
        }
    })
    .await;
    assert!(taken + (64 << 10) < before, "{taken} of {before}");
}

#[tokio::test]
async fn callers_that_the_policy_names_open_nothing_new_by_a_head_past_its_time() {
    let (mut org, alpha, beta) = alpha_and_beta(Transport::Tls).await;
    let mut before = beta.call("wiki").await.unwrap();
    echoed(&mut before, b"ahoy").await;
    org.publish(|head| head.fresh_until = head.issued_at + Seconds(60));
    alpha.state.know(org.knowledge("alpha")).unwrap();
    beta.state.know(org.knowledge("beta")).unwrap();
    let allow = |margin| {
        let stale = Some(Stale { margin, callers: may(&["beta"]) });
        let callers = [(name("wiki"), may(&["beta"]))].into();
        alpha.state.allow(&[Access { callers, stale, ..Access::default() }]);
    };
    allow(Seconds::DAY);
    beta.echoes("wiki").await.unwrap();
    allow(Seconds(60));
    let found = beta.call("wiki").await.map(drop).unwrap_err();
    assert!(matches!(found, NoStream::Declined { why: Declined::Stale, .. }), "{found}");
    echoed(&mut before, b"what is open stays").await;
}

/// Tables are swapped at random while nodes call without pause. Whoever is forbidden when `allow` returned has nothing open
/// a moment later, and nothing new until another table says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stream_is_open_that_the_table_forbids() {
    const NODES: [&str; 3] = ["beta", "gamma", "delta"];
    let org = Org::new(&["alpha", "beta", "gamma", "delta"]);
    let mut alpha = House::open(&org, "alpha", Transport::Auto).await;
    alpha.offer("wiki", echo().await, may(&NODES));
    let alpha_at = alpha.address;
    let mut callers = Vec::new();
    for (at, transport) in NODES.into_iter().zip([Transport::Tls, Transport::Quic, Transport::Tls]) {
        let mut house = House::open(&org, at, transport).await;
        house.aim("wiki", "alpha", alpha_at);
        let house = Arc::new(house);
        for _ in 0..4 {
            callers.push(tokio::spawn(call_for_ever(Arc::clone(&house))));
        }
    }
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for _ in 0..40 {
        let bits = random.next_u32();
        let allowed: Vec<&str> =
            NODES.into_iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, at)| at).collect();
        let forbidden = |alpha: &House| {
            let open = alpha.state.meter.counts().into_iter().filter(|count| count.open > 0);
            open.into_iter().any(|count| !allowed.contains(&count.principal.name()))
        };
        alpha.allow("wiki", may(&allowed));
        until("what is forbidden is gone", || !forbidden(&alpha)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        // Nobody gets in again by a way that was half open.
        for _ in 0..10 {
            let entered = alpha.state.meter.counts();
            tokio::time::sleep(Duration::from_millis(5)).await;
            for (now, then) in alpha.state.meter.counts().iter().zip(&entered) {
                let who = now.principal.name();
                assert!(now.streams == then.streams || allowed.contains(&who), "{who} opened what is forbidden");
            }
        }
    }
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    let opened: u64 = alpha.state.meter.counts().iter().map(|count| count.streams).sum();
    assert!(opened > 100, "only {opened} streams");
}

async fn call_for_ever(from: Arc<House>) {
    loop {
        match from.call("wiki").await {
            Ok(mut program) => {
                let _ = talk(&mut program).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn talk(program: &mut TcpStream) -> std::io::Result<()> {
    for _ in 0..20 {
        program.write_all(b"ahoy").await?;
        program.read_exact(&mut [0; 4]).await?;
    }
    Ok(())
}
