//! Ways in, with real sockets and real services behind them.

mod listeners;
mod socks;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use identity::id::{Digest, OrgId};
use identity::principal::{Name, Principal};
use manifest::stored::{Dial, Forward, Place as At, Socks, Target, TunnelPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use trials::port::Nobody;

use crate::access::targets::Targets;
use crate::control::listener::ListenerId;
use crate::control::order::TunnelConfig;
use crate::dial::destination::Destination;
use crate::limit::bounds::PROGRAMS;
use crate::local::auth::ThisNode;
use crate::local::listeners::{ListenReport, Listeners};
use crate::local::opens::{Carries, Opens, Unopened};
use crate::local::socks_words::SocksReply;
use crate::state::meter::Meter;

const ORG: OrgId = OrgId([0; 32]);

/// Services of this machine, and who asked for which.
#[derive(Clone, Default)]
struct Nearby {
    services: BTreeMap<Name, SocketAddr>,
    refused: BTreeMap<Name, SocksReply>,
    asked: Arc<Mutex<Vec<(Principal, Destination)>>>,
}

impl Opens for Nearby {
    type Stream = TcpStream;

    async fn open(&self, who: &Principal, wanted: &Destination) -> Result<TcpStream, Unopened> {
        self.asked.lock().unwrap().push((who.clone(), wanted.clone()));
        let no = |reply, why: &str| Unopened { reply, why: why.to_owned() };
        if let Some(reply) = self.refused.get(&wanted.service) {
            return Err(no(*reply, "so it is set"));
        }
        let at = self.services.get(&wanted.service).ok_or_else(|| no(SocksReply::NoHost, "unknown"))?;
        TcpStream::connect(at).await.map_err(|why| no(SocksReply::Refused, &why.to_string()))
    }
}

impl Carries for TcpStream {
    async fn carry(mut self, mut socket: TcpStream) {
        // Either end may be gone first.
        let _ = copy_bidirectional(&mut self, &mut socket).await;
    }
}

/// A service that says everything again, and `bye` when it has heard all.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut buffer).await {
                    socket.write_all(&buffer[..count]).await.unwrap();
                }
                let _ = socket.write_all(b"bye").await;
            });
        }
    });
    at
}

struct House {
    listeners: Listeners<Nearby>,
    running: TunnelConfig,
    targets: Targets,
    home: BTreeSet<Principal>,
    org: OrgId,
    asked: Arc<Mutex<Vec<(Principal, Destination)>>>,
    _down: Nobody,
}

impl House {
    /// SOCKS at any port; a service `echo` at two nodes, `down` that does not accept, `secret` that is not for us.
    async fn new() -> Self {
        let echo = echo().await;
        let down = Nobody::new();
        let services = BTreeMap::from([(name("echo"), echo), (name("down"), down.at())]);
        let refused = BTreeMap::from([(name("secret"), SocksReply::NotAllowed), (name("far"), SocksReply::NoWay)]);
        let nearby = Nearby { services, refused, asked: Arc::default() };
        let asked = Arc::clone(&nearby.asked);
        let dial = |at: &str| Dial { at: At::Node(at.parse().unwrap()), address: None };
        let places = vec![dial("alpha"), dial("beta")];
        let target = Target { places, node: true, callers: Vec::new(), port: Some(echo.port()) };
        Self {
            listeners: Listeners::new(nearby, Arc::default(), PROGRAMS),
            running: running("127.0.0.1:0", false),
            targets: Targets { services: BTreeMap::from([(name("echo"), target)]), relays: BTreeMap::new() },
            home: [of("node/laptop"), of("user/alice")].into(),
            org: ORG,
            asked,
            _down: down,
        }
    }

    async fn settle(&self) -> ListenReport {
        let (org, node) = ("harbor".parse().unwrap(), "laptop".parse().unwrap());
        let here = ThisNode { id: self.org, org: &org, node: &node };
        self.listeners.settle(here, &self.running, self.home.iter().cloned().collect(), &self.targets).await
    }

    async fn retry(&self) -> ListenReport {
        self.listeners.retry(self.org, &self.running).await
    }

    /// The same machine as the agent feeds it: what is bound is wished for the next time.
    async fn follow(&mut self) -> ListenReport {
        let listens = self.settle().await;
        assert_eq!(listens.failed, BTreeMap::new());
        self.running.ports.clone_from(&listens.at);
        listens
    }

    fn meter(&self) -> &Meter {
        &self.listeners.local.meter
    }

    fn refused(&self, why: &str) -> u64 {
        assert_eq!(self.meter().handshakes().failed, BTreeMap::new(), "programs are no peers");
        self.meter().programs().get(why).copied().unwrap_or(0)
    }

    fn last_asked(&self) -> (Principal, Destination) {
        self.asked.lock().unwrap().last().cloned().unwrap()
    }
}

fn running(socks: &str, password: bool) -> TunnelConfig {
    let socks = Socks::At { addr: socks.parse().unwrap(), password };
    let passwords = BTreeMap::from([(name("alice"), Digest::of(b"sea"))]);
    let policy = TunnelPolicy { socks, ..TunnelPolicy::default() };
    let (services, ports) = (BTreeMap::new(), BTreeMap::new());
    TunnelConfig { address: None, relay: false, policy, services, ports, passwords }
}

fn forward(service: &str, user: Option<&str>) -> Forward {
    Forward { service: name(service), user: user.map(name) }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn of(text: &str) -> Principal {
    format!("spiffe://harbor/{text}").parse().unwrap()
}

fn wanted(text: &str) -> Destination {
    Destination::parse(&format!("{text}.harbor.internal"), &"harbor".parse().unwrap()).unwrap()
}

/// What comes until the other side ends or resets.
async fn rest(socket: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = socket.read(&mut buffer).await {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

/// Sent all at once; what comes back.
async fn say(at: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(at).await.unwrap();
    socket.write_all(words).await.unwrap();
    socket.shutdown().await.unwrap();
    rest(&mut socket).await
}

/// A stream to `echo` that works.
async fn assert_echoes(socket: &mut TcpStream) {
    let mut back = [0; 6];
    socket.write_all(b"hello\n").await.unwrap();
    socket.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello\n");
}
