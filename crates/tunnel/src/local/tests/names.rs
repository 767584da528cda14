//! Names that are resolved, and the addresses that they lead to.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;

use tokio::net::UdpSocket;
use tokio::process::Command;

use super::*;
use crate::local::names::dns;

fn query(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, kind, 0, 1]);
    bytes
}

/// The code, and the address.
fn read(answer: &[u8]) -> (u8, Option<Ipv4Addr>) {
    assert_eq!(answer[..2], [7, 7]);
    let address = (answer[7] == 1).then(|| <[u8; 4]>::try_from(&answer[answer.len() - 4..]).unwrap().into());
    (answer[3] & 15, address)
}

async fn ask_udp(at: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(query, at).await.unwrap();
    let mut buffer = [0; 600];
    let count = socket.recv(&mut buffer).await.unwrap();
    buffer[..count].to_vec()
}

async fn ask_tcp(socket: &mut TcpStream, query: &[u8]) -> Vec<u8> {
    socket.write_u16(u16::try_from(query.len()).unwrap()).await.unwrap();
    socket.write_all(query).await.unwrap();
    let mut answer = vec![0; socket.read_u16().await.unwrap().into()];
    socket.read_exact(&mut answer).await.unwrap();
    answer
}

async fn resolving() -> (House, ListenReport) {
    let mut house = House::new().await;
    house.running.policy.resolver = Some("127.0.0.1:0".parse().unwrap());
    let listens = house.follow().await;
    (house, listens)
}

#[tokio::test]
async fn a_name_leads_to_its_service_at_the_port_that_it_has_at_home() {
    let (house, listens) = resolving().await;
    let port = house.targets.services[&name("echo")].port.unwrap();
    for asked in ["echo", "echo.beta"] {
        let answer = ask_udp(listens.at[&ListenerId::Resolver], &query(&format!("{asked}.harbor.internal"), 1)).await;
        let (code, address) = read(&answer);
        assert_eq!(code, 0, "{asked}");
        let at = SocketAddr::new(IpAddr::from(address.unwrap()), port);
        assert_echoes(&mut TcpStream::connect(at).await.unwrap()).await;
        assert_eq!(house.last_asked(), (of("user/alice"), wanted(asked)));
        // A program that resolves by itself and asks by SOCKS then is understood, too.
        let octets = address.unwrap().octets();
        let request = [&[5, 1, 0, 5, 1, 0, 1], &octets[..], &[0, 80]].concat();
        assert!(say(listens.at[&ListenerId::Socks], &request).await.ends_with(b"bye"));
        assert_eq!(house.last_asked().1, wanted(asked));
    }
    let other = say(listens.at[&ListenerId::Socks], &[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80]).await;
    assert_eq!(other[3], 2, "{other:?}");
}

#[tokio::test]
async fn questions_are_answered_over_tcp_too_one_after_the_other() {
    let (_house, listens) = resolving().await;
    let mut socket = TcpStream::connect(listens.at[&ListenerId::Resolver]).await.unwrap();
    let good = ask_tcp(&mut socket, &query("echo.harbor.internal", 1)).await;
    assert_eq!(good, ask_udp(listens.at[&ListenerId::Resolver], &query("echo.harbor.internal", 1)).await);
    for (asked, kind, expected) in [
        ("echo.harbor.internal", 28, (0, None)),
        ("missing.harbor.internal", 1, (3, None)),
        ("example.com", 1, (5, None)),
        ("echo.port.internal", 1, (5, None)),
    ] {
        assert_eq!(read(&ask_tcp(&mut socket, &query(asked, kind)).await), expected, "{asked}");
    }
    let mut long = query("echo.harbor.internal", 1);
    long.resize(dns::LONGEST + 1, 0);
    socket.write_u16(u16::try_from(long.len()).unwrap()).await.unwrap();
    socket.write_all(&long).await.unwrap();
    assert_eq!(rest(&mut socket).await, b"", "a query is not that long");
}

#[tokio::test]
async fn without_a_resolver_there_are_no_addresses_and_with_one_they_come_and_go_with_the_services() {
    let (mut house, first) = resolving().await;
    let service = ListenerId::Service(name("echo"));
    let at = first.at[&service];
    assert!(first.at.contains_key(&ListenerId::ServiceAt(name("echo"), "alpha".parse().unwrap())));
    let echo = house.targets.services.remove(&name("echo")).unwrap();
    let second = house.follow().await;
    assert!(!second.at.contains_key(&service), "{second:?}");
    assert!(TcpStream::connect(at).await.is_err());
    let asked = query("echo.harbor.internal", 1);
    assert_eq!(read(&ask_udp(second.at[&ListenerId::Resolver], &asked).await), (3, None));
    house.targets.services.insert(name("echo"), echo);
    assert_eq!(house.follow().await.at[&service], at);
    house.running.policy.resolver = None;
    assert_eq!(house.follow().await.at.keys().filter(|place| **place == service).count(), 0);
}

/// Asks by a resolver that others wrote.
const ASKS: &str = r#"
const { Resolver } = require("node:dns").promises;
const [server, ...names] = process.argv.slice(2);
const resolver = new Resolver({ timeout: 10000, tries: 1 });
resolver.setServers([server]);
(async () => {
  for (const name of names) {
    const said = async (type) => (await resolver.resolve(name, type).catch((why) => [why.code])).join(" ");
    console.log(name, await said("A"), await said("AAAA"));
  }
})();
"#;

#[tokio::test]
async fn a_resolver_that_others_wrote_understands_the_answers() {
    let (house, listens) = resolving().await;
    let auth = house.listeners.local.auth.load_full().unwrap();
    let (all, beta) = (auth.addresses.of(&wanted("echo")).unwrap(), auth.addresses.of(&wanted("echo.beta")).unwrap());
    let server = listens.at[&ListenerId::Resolver].to_string();
    let names = ["echo.harbor.internal", "Echo.beta.harbor.internal", "none.harbor.internal", "example.com"];
    let mut node = Command::new("node");
    let mut node = node.arg("-").arg(server).args(names).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    node.stdin.take().unwrap().write_all(ASKS.as_bytes()).await.unwrap();
    let said = String::from_utf8(node.wait_with_output().await.unwrap().stdout).unwrap();
    let expected = [
        format!("echo.harbor.internal {all} ENODATA"),
        format!("Echo.beta.harbor.internal {beta} ENODATA"),
        "none.harbor.internal ENOTFOUND ENOTFOUND".to_owned(),
        "example.com EREFUSED EREFUSED".to_owned(),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

/// Whoever is first at the address of a service gets nothing by it.
#[tokio::test]
async fn a_name_whose_address_somebody_else_has_does_not_resolve() {
    let (house, first) = resolving().await;
    let service = ListenerId::Service(name("echo"));
    let at = first.at[&service];
    drop(house);
    while TcpStream::connect(at).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let squatter = TcpListener::bind(at).await.unwrap();
    let mut house = House::new().await;
    house.running.policy.resolver = Some("127.0.0.1:0".parse().unwrap());
    let target = house.targets.services.get_mut(&name("echo")).unwrap();
    target.port = Some(at.port());
    let mut silent = target.clone();
    silent.port = None;
    house.targets.services.insert(name("silent"), silent);
    let listens = house.settle().await;
    assert_eq!(listens.failed.keys().collect::<Vec<_>>(), [&service]);
    let why = &listens.failed[&service];
    assert!(why.starts_with(&format!("{at}: Address already in use")) && why.contains("use SOCKS"), "{why}");
    let resolver = listens.at[&ListenerId::Resolver];
    for (asked, is_there) in [("echo", false), ("echo.alpha", true), ("silent", false)] {
        let (code, address) = read(&ask_udp(resolver, &query(&format!("{asked}.harbor.internal"), 1)).await);
        assert_eq!((code, address.is_some()), if is_there { (0, true) } else { (3, false) }, "{asked}");
    }
    // By SOCKS it is reached as before, and when the port is free, by its name, too.
    drop(squatter);
    assert_eq!(house.follow().await.at[&service], at);
    assert_eq!(read(&ask_udp(resolver, &query("echo.harbor.internal", 1)).await), (0, Some(ipv4(at))));
}

/// The system was told once where to ask, and asks there whoever answers.
#[tokio::test]
async fn a_resolver_whose_port_somebody_else_has_is_nowhere() {
    // An address of this process alone, and a port that is given to nobody: it has to be free later.
    let [.., a, b] = std::process::id().to_be_bytes();
    let at = SocketAddr::from(([127, 3, a, b], 5_300));
    let squatter = UdpSocket::bind(at).await.unwrap();
    let mut house = House::new().await;
    house.running.policy.resolver = Some(at.to_string().parse().unwrap());
    let listens = house.settle().await;
    assert_eq!(listens.at.get(&ListenerId::Resolver), None);
    let why = &listens.failed[&ListenerId::Resolver];
    assert!(why.starts_with(&format!("{at}: Address already in use")) && why.contains("resolved.conf"), "{why}");
    drop(squatter);
    assert_eq!(house.follow().await.at[&ListenerId::Resolver], at);
}

fn ipv4(at: SocketAddr) -> Ipv4Addr {
    match at.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => panic!("{at}"),
    }
}
