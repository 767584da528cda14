//! Nodes of the scene's org, at work on loopback, and programs beside them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::principal::{HostPort, Name, NodeName, Principal};
use manifest::stored::{Access, Caller, Dial, Listener, Place, Target, Transport, TunnelPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::accept::quic::serve_quic;
use crate::accept::tls::serve_tls;
use crate::control::event::TunnelEvent;
use crate::control::order::TunnelConfig;
use crate::dial::destination::Destination;
use crate::dial::dialer::Dialer;
use crate::dial::no_stream::NoStream;
use crate::state::shared::TunnelState;
use crate::tests::scene::{Org, node};

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn wanted(service: &str) -> Destination {
    Destination { service: name(service), node: None }
}

/// One node's tunnel.
pub struct House {
    pub state: Arc<TunnelState>,
    pub words: Option<mpsc::Receiver<TunnelEvent>>,
    pub dialer: Dialer,
    /// Where it listens for both transports.
    pub address: SocketAddr,
    pub stop: watch::Sender<bool>,
    pub own: Principal,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    Both,
    TlsOnly,
    QuicOnly,
}

impl House {
    pub async fn open(org: &Org, at: &str, transport: Transport) -> Self {
        Self::open_with(org, at, transport, Serves::Both).await
    }

    pub async fn open_with(org: &Org, at: &str, transport: Transport, serves: Serves) -> Self {
        let (state, words) = TunnelState::new(org.name.clone(), node(at), org.knowledge(at)).unwrap();
        let state = Arc::new(state);
        let own = org.principal("node", at);
        state.svids.replace(&[org.svid(&own, at)]).unwrap();
        let policy = TunnelPolicy { transport, ..TunnelPolicy::default() };
        let running = TunnelConfig {
            address: None,
            relay: false,
            policy,
            services: BTreeMap::new(),
            ports: BTreeMap::new(),
            passwords: BTreeMap::new(),
        };
        state.running.store(Some(Arc::new(running)));
        let (stop, stopped) = watch::channel(false);
        let address = listen(&state, serves, &stopped).await;
        let dialer = Dialer::new(Arc::clone(&state));
        Self { state, words: Some(words), dialer, address, stop, own, access: Access::default() }
    }

    pub fn change(&self, change: impl FnOnce(&mut TunnelConfig)) {
        let mut running = (**self.state.running.load().as_ref().unwrap()).clone();
        change(&mut running);
        self.state.running.store(Some(Arc::new(running)));
    }

    /// A service that listens at this address, and who may call it.
    pub fn offer(&mut self, service: &str, at: SocketAddr, rows: Vec<Caller>) {
        let listener = Listener { addr: at.to_string().parse().unwrap(), tells_caller: false };
        self.change(|running| {
            running.services.insert(name(service), listener);
        });
        self.allow(service, rows);
    }

    pub fn allow(&mut self, service: &str, rows: Vec<Caller>) {
        self.access.callers.insert(name(service), rows);
        self.state.allow(std::slice::from_ref(&self.access));
    }

    /// Knows that the service is at that node.
    pub fn aim(&mut self, service: &str, at: &str, address: SocketAddr) {
        self.aim_for(service, at, address, &[]);
    }

    pub fn aim_for(&mut self, service: &str, at: &str, address: SocketAddr, callers: &[Principal]) {
        let address: HostPort = address.to_string().parse().unwrap();
        let places = vec![Dial { at: Place::Node(node(at)), address: Some(address) }];
        let target = Target { places, node: true, callers: callers.to_vec(), port: None };
        self.access.targets.insert(name(service), target);
        self.state.allow(std::slice::from_ref(&self.access));
    }

    /// Knows that the service is at that node, which has no address.
    pub fn aim_hidden(&mut self, service: &str, at: &str) {
        let places = vec![Dial { at: Place::Node(node(at)), address: None }];
        let target = Target { places, node: true, callers: Vec::new(), port: None };
        self.access.targets.insert(name(service), target);
        self.state.allow(std::slice::from_ref(&self.access));
    }

    pub fn know_relays(&mut self, relays: &BTreeMap<NodeName, SocketAddr>) {
        let relay = |(node, at): (&NodeName, &SocketAddr)| (node.clone(), at.to_string().parse().unwrap());
        self.access.relays = relays.iter().map(relay).collect();
        self.state.allow(std::slice::from_ref(&self.access));
    }

    /// A program's socket whose other end is carried to the service.
    pub async fn call(&self, service: &str) -> Result<TcpStream, NoStream> {
        self.call_as(&self.own, service).await
    }

    pub async fn call_as(&self, who: &Principal, service: &str) -> Result<TcpStream, NoStream> {
        let stream = self.dialer.open(who, &wanted(service)).await?;
        let (program, inner) = pair().await;
        tokio::spawn(stream.carry(inner));
        Ok(program)
    }

    /// Does the service answer?
    pub async fn echoes(&self, service: &str) -> Result<(), NoStream> {
        let mut program = self.call(service).await?;
        echoed(&mut program, b"ahoy").await;
        Ok(())
    }
}

async fn listen(state: &Arc<TunnelState>, serves: Serves, stop: &watch::Receiver<bool>) -> SocketAddr {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        // The same port is free for the other one, most times.
        let Ok(udp) = std::net::UdpSocket::bind(address) else { continue };
        if serves != Serves::QuicOnly {
            tokio::spawn(serve_tls(Arc::clone(state), tcp, stop.clone()));
        }
        if serves != Serves::TlsOnly {
            tokio::spawn(serve_quic(Arc::clone(state), udp, stop.clone()));
        }
        return address;
    }
}

/// Two ends of one connection on loopback.
pub async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (out, back) = tokio::join!(TcpStream::connect(address), listener.accept());
    (out.unwrap(), back.unwrap().0)
}

/// A service that does this with each connection.
pub async fn service<F, R>(answer: F) -> SocketAddr
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    address
}

/// Gives back what it gets.
pub async fn echo() -> SocketAddr {
    service(|mut socket| async move {
        let (mut from, mut to) = socket.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    })
    .await
}

pub async fn echoed(program: &mut TcpStream, words: &[u8]) {
    program.write_all(words).await.unwrap();
    let mut back = vec![0; words.len()];
    within(program.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, words);
}

/// Nothing here takes that long.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(2), work).await.expect("it takes too long")
}

/// `alpha` has a wiki that echoes and that `beta` may call; over one transport alone, so that on a slow day the other one
/// does not come in between.
pub async fn alpha_and_beta(transport: Transport) -> (Org, House, House) {
    let org = Org::new(&["alpha", "beta"]);
    let serves = match transport {
        Transport::Tls => Serves::TlsOnly,
        Transport::Quic => Serves::QuicOnly,
        Transport::Auto => Serves::Both,
    };
    let mut alpha = House::open_with(&org, "alpha", transport, serves).await;
    let mut beta = House::open(&org, "beta", transport).await;
    alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
    beta.aim("wiki", "alpha", alpha.address);
    (org, alpha, beta)
}

pub const BOTH: [Transport; 2] = [Transport::Tls, Transport::Quic];

/// Carries TCP to an address, until it is told to drop what it carries, or to fall silent.
pub struct Middle {
    pub address: SocketAddr,
    mood: watch::Sender<Mood>,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Carries,
    /// Counted, so that each time is a new one.
    Drops(u32),
    Silent,
}

impl Middle {
    pub async fn to(there: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, moods) = watch::channel(Mood::Carries);
        let task = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut moods = moods.clone();
                moods.mark_unchanged();
                tokio::spawn(async move {
                    let mut out = TcpStream::connect(there).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut socket, &mut out) => {}
                        _ = moods.changed() => {}
                    }
                    // Both sockets stay, and nobody hears anything.
                    if *moods.borrow() == Mood::Silent {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { address, mood, task: task.abort_handle() }
    }

    pub fn drop_all(&self) {
        self.mood.send_modify(|mood| {
            *mood = match mood {
                Mood::Drops(times) => Mood::Drops(*times + 1),
                Mood::Carries | Mood::Silent => Mood::Drops(0),
            };
        });
    }

    /// Nothing goes through any more, and nobody is accepted.
    pub fn die(&self) {
        self.task.abort();
        self.drop_all();
    }

    pub fn fall_silent(&self) {
        self.mood.send_replace(Mood::Silent);
    }
}

/// Carries UDP of one caller to an address, and later to another.
pub async fn udp_middle(first: SocketAddr) -> (SocketAddr, watch::Sender<SocketAddr>) {
    let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = front.local_addr().unwrap();
    let (there, mut target) = watch::channel(first);
    tokio::spawn(async move {
        let (mut out, mut back, mut caller) = (vec![0; 1 << 16], vec![0; 1 << 16], None);
        loop {
            // A new socket for each target: what the old one still says is not heard.
            let behind = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let to = *target.borrow_and_update();
            loop {
                tokio::select! {
                    _ = target.changed() => break,
                    got = front.recv_from(&mut out) => {
                        let (count, from) = got.unwrap();
                        caller = Some(from);
                        let _ = behind.send_to(&out[..count], to).await;
                    }
                    got = behind.recv_from(&mut back) => {
                        if let (Ok((count, _)), Some(caller)) = (got, caller) {
                            let _ = front.send_to(&back[..count], caller).await;
                        }
                    }
                }
            }
        }
    });
    (address, there)
}

/// Asks until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so: {what}");
}

/// The program's side was broken off, and did not end in order.
pub async fn broke(program: &mut TcpStream) {
    let mut rest = Vec::new();
    let found = within(program.read_to_end(&mut rest)).await;
    assert_eq!(found.map_err(|why| why.kind()), Err(std::io::ErrorKind::ConnectionReset));
}
