//! Programs come in by SOCKS and by a local port, and get through to a service on another node.

use std::net::SocketAddr;

use identity::principal::Principal;
use manifest::stored::{Caller, Forward, Place as At, Socks, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::control::listener::ListenerId;
use crate::control::order::TunnelConfig;
use crate::dial::dialer::Dialer;
use crate::local::listeners::LocalListeners;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, alpha_and_beta, echo, echoed, name, within};

/// `alice` is at home on `beta`, and may call the wiki on `alpha`. All ways are open on `beta`, at any port.
async fn at_beta(transport: Transport) -> (Org, House, House, LocalListeners<Dialer>, TunnelConfig) {
    let (org, mut alpha, mut beta) = alpha_and_beta(transport).await;
    let alice = org.principal("user", "alice");
    beta.state.svids.replace(&[org.svid(&beta.own, "beta"), org.svid(&alice, "beta")]).unwrap();
    let placed = Caller::Placed { principal: alice.clone(), at: vec![At::Node(node("beta"))] };
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = nobody.local_addr().unwrap();
    // Bound until the test ends, so that nobody else listens there.
    std::mem::forget(nobody);
    alpha.allow("wiki", vec![placed.clone()]);
    alpha.offer("down", closed, vec![placed]);
    alpha.offer("secret", echo().await, Vec::new());
    for service in ["wiki", "down", "secret"] {
        beta.aim_for(service, "alpha", alpha.address, std::slice::from_ref(&alice));
    }
    beta.aim_for("lost", "gamma", closed, std::slice::from_ref(&alice));
    let mut running = (**beta.state.running.load().as_ref().unwrap()).clone();
    let any = "127.0.0.1:0".parse().unwrap();
    running.policy.socks = Socks::At { addr: any, password: false };
    let ways = LocalListeners::new(beta.state.clone(), beta.dialer.clone());
    (org, alpha, beta, ways, running)
}

async fn socks(at: SocketAddr, to: &str) -> (u8, TcpStream) {
    let mut program = TcpStream::connect(at).await.unwrap();
    let request = [&[5, 1, 0, 5, 1, 0, 3, u8::try_from(to.len()).unwrap()], to.as_bytes(), &[0, 80]].concat();
    program.write_all(&request).await.unwrap();
    let mut reply = [0; 12];
    within(program.read_exact(&mut reply)).await.unwrap();
    (reply[3], program)
}

fn callers(house: &House) -> Vec<(Principal, u64)> {
    let counts = house.state.meter.counts().into_iter().filter(|count| count.service == name("wiki"));
    counts.map(|count| (count.principal, count.streams)).collect()
}

#[tokio::test]
async fn a_program_gets_through_socks_to_a_service_elsewhere() {
    for transport in BOTH {
        let (org, alpha, _beta, ways, running) = at_beta(transport).await;
        let at = ways.follow(&running).await.at;
        let (code, mut program) = socks(at[&ListenerId::Socks], "wiki.harbor.internal").await;
        assert_eq!(code, 0);
        echoed(&mut program, b"ahoy").await;
        program.shutdown().await.unwrap();
        let mut rest = Vec::new();
        within(program.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"", "the service ended in its turn");
        let (code, _) = socks(at[&ListenerId::Socks], "Wiki.Alpha.harbor.internal.").await;
        assert_eq!(code, 0);
        assert_eq!(callers(&alpha), [(org.principal("user", "alice"), 2)]);
    }
}

#[tokio::test]
async fn what_is_not_opened_is_told_by_the_fitting_code() {
    for transport in BOTH {
        let (org, _alpha, beta, ways, running) = at_beta(transport).await;
        let at = ways.follow(&running).await.at;
        let of_node = at[&ListenerId::SocksOf(beta.own.clone())];
        let of_alice = at[&ListenerId::SocksOf(org.principal("user", "alice"))];
        for (at, to, expected) in [
            (of_alice, "wiki", 0),
            (of_node, "wiki", 2),
            (of_alice, "secret", 2),
            (of_alice, "down", 5),
            (of_alice, "missing", 4),
            (of_alice, "wiki.gamma", 4),
        ] {
            let (code, _) = socks(at, &format!("{to}.harbor.internal")).await;
            assert_eq!(code, expected, "{to} over {transport:?}");
        }
    }
}

#[tokio::test]
async fn a_node_that_no_way_leads_to_is_told_as_such() {
    let (_org, _alpha, _beta, ways, running) = at_beta(Transport::Auto).await;
    let at = ways.follow(&running).await.at;
    assert_eq!(socks(at[&ListenerId::Socks], "lost.harbor.internal").await.0, 3);
}

#[tokio::test]
async fn a_local_port_leads_to_its_service_for_whom_it_says() {
    let (org, alpha, _beta, ways, mut running) = at_beta(Transport::Tls).await;
    let wished = "127.0.0.1:0".parse().unwrap();
    let forward = |user: Option<&str>| Forward { service: name("wiki"), user: user.map(name) };
    running.policy.forward.insert("127.0.0.1:0".parse().unwrap(), forward(Some("alice")));
    let at = ways.follow(&running).await.at[&ListenerId::Forward(wished)];
    let mut program = TcpStream::connect(at).await.unwrap();
    echoed(&mut program, b"ahoy").await;
    assert_eq!(callers(&alpha), [(org.principal("user", "alice"), 1)]);
    // For the node itself, which may not: the port stays, and the stream that is open stays too.
    running.policy.forward.insert("127.0.0.1:0".parse().unwrap(), forward(None));
    ways.follow(&running).await;
    let refused = within(TcpStream::connect(at).await.unwrap().read_u8()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    echoed(&mut program, b"still there").await;
}

#[tokio::test]
async fn a_user_who_is_no_longer_at_home_has_no_listener() {
    let (org, _alpha, beta, ways, running) = at_beta(Transport::Tls).await;
    let alice = ListenerId::SocksOf(org.principal("user", "alice"));
    let first = ways.follow(&running).await;
    beta.state.svids.replace(&[org.svid(&beta.own, "beta")]).unwrap();
    let second = ways.follow(&running).await;
    assert!(first.at.contains_key(&alice) && !second.at.contains_key(&alice), "{second:?}");
    assert_eq!(second.at[&ListenerId::Socks], first.at[&ListenerId::Socks]);
    // The one that is for anyone speaks for the node now.
    let (code, _) = socks(second.at[&ListenerId::Socks], "wiki.harbor.internal").await;
    assert_eq!(code, 2);
}
