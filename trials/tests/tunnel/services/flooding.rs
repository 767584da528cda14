//! A flood of strangers: it costs them more than it costs the node, and members get in meanwhile.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::{ClientConfig, ClientConnection};
use tokio::task::JoinSet;
use trials::client::stranger::{Dial, ELSEWHERE};
use trials::load::meter;
use trials::place::until;

use super::Harbor;
use super::quayside::{echo, echoes};

/// So many connections in a flood.
const MANY: u64 = 2_000;
/// Before an address is suspect, and the milliseconds between two handshakes from then on; a few may be under way meanwhile.
const FREE: u64 = 16 + 4;
const PACE: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody without an SVID, who speaks as members do.
#[derive(Clone)]
struct Stranger {
    to: u16,
    config: Arc<ClientConfig>,
}

impl Stranger {
    fn to(port: u16) -> Self {
        let mut config = (*Dial::to(port).config()).clone();
        config.alpn_protocols = vec![wire::peer::ALPN.to_vec()];
        Self { to: port, config: Arc::new(config) }
    }

    fn session(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.config), "127.0.0.1".try_into().unwrap()).unwrap()
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&stream, &SocketAddr::from((ELSEWHERE, 0)))?;
        connect(&stream, &SocketAddr::from((Ipv4Addr::LOCALHOST, self.to)))?;
        let stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// As far as it goes.
    fn shakes_hands(&self) -> io::Result<()> {
        let mut session = self.session();
        let mut stream = self.dial()?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        stream.read_exact(&mut [0; 64])
    }

    /// One that says what it has said before, and listens to nothing: the cheapest there is.
    fn repeats(&self, hello: &[u8]) -> io::Result<()> {
        let mut stream = self.dial()?;
        stream.write_all(hello)?;
        stream.read_exact(&mut [0; 64])
    }

    /// Fifty at a time, each with a handshake of its own; who is not answered gives up soon.
    async fn shake_hands_by_quic(self, count: &AtomicU64) {
        let endpoint = quinn::Endpoint::client((ELSEWHERE, 0).into()).unwrap();
        let config = QuicClientConfig::try_from(Arc::clone(&self.config)).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(config));
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.to));
        while count.load(SeqCst) < MANY {
            let mut tasks = JoinSet::new();
            for _ in 0..50 {
                let connecting = endpoint.connect_with(config.clone(), to, "127.0.0.1").unwrap();
                tasks.spawn(tokio::time::timeout(Duration::from_millis(200), connecting));
            }
            tasks.join_all().await;
            count.fetch_add(50, SeqCst);
        }
    }
}

type Flood = Box<dyn FnOnce(&AtomicU64) + Send>;

/// In a thread of its own, whose processor time is what the flood costs.
fn begin(run: Flood) -> (Arc<AtomicU64>, JoinHandle<Duration>) {
    let count = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&count);
    let thread = std::thread::spawn(move || {
        run(&counted);
        meter::thread_cpu()
    });
    (count, thread)
}

/// One after the other.
fn in_turn(count: &AtomicU64, one: impl Fn() -> io::Result<()>) {
    while count.load(SeqCst) < MANY {
        // Answered or reset, whoever it is.
        let _ = one();
        count.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_flood_of_strangers_costs_them_more_than_the_node() {
    let harbor = Harbor::new();
    harbor.offer("tls", &[("echo", echo())]);
    let alpha = harbor.tunnel("alpha");
    let pid = u32::try_from(alpha["pid"].as_u64().unwrap()).unwrap();
    let port = |place: &str| alpha["listens"][place].as_str().unwrap().parse::<SocketAddr>().unwrap().port();
    let (tls, quic) = (Stranger::to(port("peers/tls")), Stranger::to(port("peers/quic")));
    let mut hello = Vec::new();
    tls.session().write_tls(&mut hello).unwrap();
    let again = tls.clone();
    let by_quic = move |count: &AtomicU64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(quic.shake_hands_by_quic(count));
    };
    let floods: [(&str, Flood); 3] = [
        ("handshakes over TLS", Box::new(move |count| in_turn(count, || tls.shakes_hands()))),
        ("repeated words", Box::new(move |count| in_turn(count, || again.repeats(&hello)))),
        ("handshakes over QUIC", Box::new(by_quic)),
    ];
    let (socks, mut members, begun) = (harbor.socks("ann"), Vec::new(), Instant::now());
    for (what, flood) in floods {
        let before = meter::fine_cpu(pid);
        let (count, thread) = begin(flood);
        until("it is in the middle", || count.load(SeqCst) > MANY / 4);
        // The others are open, so that it comes by a connection of its own.
        members.push(socks.open("echo"));
        for stream in &mut members {
            echoes(stream).unwrap();
        }
        let theirs = thread.join().unwrap();
        let ours = meter::fine_cpu(pid).saturating_sub(before);
        println!("{what}: {ours:?} of the node, {theirs:?} of the strangers");
        let bearable = match what {
            "handshakes over TLS" => theirs,
            // Mostly code that is not optimized here: what is left when each first packet is opened and dropped.
            "handshakes over QUIC" => theirs * 5 / 4,
            // A stranger that computes nothing by itself is only kept from making the node compute.
            _ => Duration::MAX,
        };
        assert!(ours < bearable, "{what}: {ours:?} of the node, {theirs:?} of the strangers");
        let shaken = harbor.tunnel("alpha")["now"]["handshakes"]["failed"]["handshake"].as_u64().unwrap();
        let most = FREE + u64::try_from(begun.elapsed().as_millis()).unwrap() / PACE;
        assert!(shaken <= most, "{what}: {shaken} handshakes with strangers, and {most} are bearable");
    }
    let now = harbor.tunnel("alpha")["now"]["handshakes"].clone();
    assert!(now["failed"]["too_many"].as_u64().unwrap() > MANY, "{now}");
}
