//! What is bound, what stays, and what goes.

use std::net::TcpListener as Taken;
use std::sync::atomic::{AtomicU8, Ordering};

use identity::principal::HostPort;
use trials::port::Claim;

use super::*;
use crate::local::ports::offset;

/// An address of loopback that no other test has, and so every port of it is free.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let ip = [127, 128 | high, low, NEXT.fetch_add(1, Ordering::Relaxed)];
    SocketAddr::from((ip, 1080))
}

fn host_port(at: SocketAddr) -> HostPort {
    at.to_string().parse().unwrap()
}

async fn through_socks(at: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(at).await.unwrap();
    let name = b"echo.harbor.internal";
    socket.write_all(&[&[5, 1, 0, 5, 1, 0, 3, 20], &name[..], &[0, 80]].concat()).await.unwrap();
    let mut reply = [0; 12];
    socket.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply[3], 0, "{reply:?}");
    socket
}

#[tokio::test]
async fn what_comes_and_goes_does_not_disturb_what_stays() {
    let mut house = House::new().await;
    let first = house.follow().await;
    let mut long = through_socks(first.at[&ListenerId::Socks]).await;
    let one: HostPort = "127.0.0.1:0".parse().unwrap();
    house.running.policy.forward.insert(one.clone(), forward("echo", None));
    house.home.insert(of("user/aaron"));
    // Whoever was bound anew would be somewhere else.
    house.running.ports.clear();
    let second = house.follow().await;
    assert!(first.at.iter().all(|(place, at)| second.at.get(place) == Some(at)), "{first:?} {second:?}");
    let added: Vec<&ListenerId> = second.at.keys().filter(|place| !first.at.contains_key(place)).collect();
    assert_eq!(added, [&ListenerId::SocksOf(of("user/aaron")), &ListenerId::Forward(one.clone())]);
    let mut forwarded = TcpStream::connect(second.at[&ListenerId::Forward(one)]).await.unwrap();
    assert_echoes(&mut forwarded).await;

    house.running.policy.forward.clear();
    house.running.policy.socks = Socks::Off;
    let third = house.follow().await;
    assert_eq!(third, ListenReport::default());
    for (place, at) in second.at {
        assert!(TcpStream::connect(at).await.is_err(), "{place:?} is still there");
    }
    assert_echoes(&mut long).await;
    assert_echoes(&mut forwarded).await;
}

#[tokio::test]
async fn a_taken_port_becomes_the_orgs_own_and_that_is_kept() {
    let mut house = House::new().await;
    let wished = own_address();
    let other = Taken::bind(wished).unwrap();
    house.running = running(&wished.to_string(), false);
    let first = house.follow().await;
    let socks = first.at[&ListenerId::Socks];
    assert_eq!(socks.port(), wished.port() + offset(ORG));
    drop(other);
    // The next process of the same org, while the wish is free: whoever was told the port finds it there.
    let mut next = House::new().await;
    next.running = house.running.clone();
    drop(house);
    while TcpStream::connect(socks).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(next.follow().await.at, first.at);
    // Another wish is obeyed.
    next.running.policy.socks = running("127.0.0.1:0", false).policy.socks;
    assert_ne!(next.follow().await.at[&ListenerId::Socks], socks);
    assert!(TcpStream::connect(socks).await.is_err());
}

#[tokio::test]
async fn a_port_that_becomes_free_is_had_by_whoever_waits_for_it() {
    let mut house = House::new().await;
    let (wished, moved) = (own_address(), own_address());
    let (squatter, other) = (Taken::bind(wished).unwrap(), Taken::bind(moved).unwrap());
    house.running = running(&wished.to_string(), true);
    house.running.policy.forward.insert(host_port(moved), forward("echo", None));
    let before = house.settle().await;
    assert_eq!(before.failed.keys().collect::<Vec<_>>(), [&ListenerId::Socks]);
    assert_eq!(house.retry().await, before, "nothing has changed");
    let mut stream = TcpStream::connect(before.at[&ListenerId::Forward(host_port(moved))]).await.unwrap();
    drop((squatter, other));
    let after = house.retry().await;
    assert_eq!((after.at[&ListenerId::Socks], after.failed.len()), (wished, 0));
    assert!(before.at.iter().all(|(place, at)| after.at.get(place) == Some(at)), "what was moved stays: {after:?}");
    assert_echoes(&mut stream).await;
}

/// Programs would tell their password to whoever has taken the port.
#[tokio::test]
async fn with_passwords_a_taken_port_is_not_moved() {
    let mut house = House::new().await;
    let wished = own_address();
    let squatter = Taken::bind(wished).unwrap();
    // Before there were passwords, it was moved.
    house.running = running(&wished.to_string(), false);
    assert_ne!(house.follow().await.at[&ListenerId::Socks], wished);
    house.running.policy.socks = running(&wished.to_string(), true).policy.socks;
    let listens = house.settle().await;
    assert_eq!(listens.failed.keys().collect::<Vec<_>>(), [&ListenerId::Socks]);
    let why = &listens.failed[&ListenerId::Socks];
    assert!(why.contains(&wished.to_string()) && why.contains("end the program that has the port"), "{why}");
    drop(squatter);
    let first = house.follow().await;
    assert_eq!(first.at[&ListenerId::Socks], wished);
    // Whoever comes later and stands first by name takes nobody's port.
    house.home.insert(of("user/aaron"));
    let second = house.follow().await;
    assert!(first.at.iter().all(|(place, at)| second.at.get(place) == Some(at)), "{first:?} {second:?}");
    let aaron = second.at[&ListenerId::SocksOf(of("user/aaron"))];
    assert!((wished.port() + 1..wished.port() + 10).contains(&aaron.port()), "{aaron}");
    // Where somebody was told to go, nobody else is gone to.
    drop(house.listeners);
    let alice = second.at[&ListenerId::SocksOf(of("user/alice"))];
    while TcpStream::connect(alice).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let _squatter = Taken::bind(alice).unwrap();
    let mut next = House::new().await;
    (next.running, next.home) = (house.running.clone(), house.home.clone());
    let listens = next.settle().await;
    assert_eq!(listens.failed.keys().collect::<Vec<_>>(), [&ListenerId::SocksOf(of("user/alice"))]);
}

#[tokio::test]
async fn two_orgs_on_one_machine_are_apart() {
    let (mut one, mut two) = (House::new().await, House::new().await);
    two.org = OrgId([1; 32]);
    let wished = own_address();
    one.running = running(&wished.to_string(), false);
    two.running = running(&wished.to_string(), false);
    assert_eq!(one.follow().await.at[&ListenerId::Socks], wished);
    let at = two.follow().await.at[&ListenerId::Socks];
    assert_eq!(at.port(), wished.port() + offset(two.org));
    assert_echoes(&mut through_socks(at).await).await;
    assert_eq!(one.asked.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_cannot_be_bound_is_told_and_the_rest_is_there() {
    let mut house = House::new().await;
    // An address for documents, which no machine has; it is not of loopback, so nothing else will do.
    let absent: HostPort = "192.0.2.1:7070".parse().unwrap();
    house.running.policy.forward.insert(absent.clone(), forward("echo", None));
    let listens = house.settle().await;
    assert_eq!(listens.failed.keys().collect::<Vec<_>>(), [&ListenerId::Forward(absent)]);
    assert!(listens.at.contains_key(&ListenerId::Socks));
}

#[tokio::test]
async fn what_the_fleet_opens_to_others_is_open_there_and_nowhere_else() {
    let mut house = House::new().await;
    let claim = Claim::new();
    let wide = SocketAddr::from(([0, 0, 0, 0], claim.port));
    house.running = running(&wide.to_string(), false);
    let at = house.follow().await.at;
    assert_eq!(at[&ListenerId::Socks], wide);
    let mut others = at.iter().filter(|(place, _)| **place != ListenerId::Socks);
    assert!(others.all(|(_, at)| at.ip().is_loopback()), "{at:?}");
    // Taken: it is nowhere, rather than somewhere else.
    let mut second = House::new().await;
    second.running = house.running.clone();
    let listens = second.settle().await;
    assert!(listens.failed.contains_key(&ListenerId::Socks), "{listens:?}");
}

#[tokio::test]
async fn a_forward_asks_for_whom_it_is_told_and_resets_what_is_not_opened() {
    let mut house = House::new().await;
    let wished = own_address();
    let place = ListenerId::Forward(host_port(wished));
    house.running.policy.forward.insert(host_port(wished), forward("echo", Some("alice")));
    let at = house.follow().await.at[&place];
    assert_echoes(&mut TcpStream::connect(at).await.unwrap()).await;
    assert_eq!(house.last_asked(), (of("user/alice"), wanted("echo")));
    // Another service at the same port: the listener stays, and leads there.
    house.running.policy.forward.insert(host_port(wished), forward("secret", None));
    assert_eq!(house.follow().await.at[&place], at);
    let mut socket = TcpStream::connect(at).await.unwrap();
    let why = socket.read_u8().await.unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(house.last_asked(), (of("node/laptop"), wanted("secret")));
}
