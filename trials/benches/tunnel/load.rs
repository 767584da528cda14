//! Puts load on a way, from a process of its own: bulk, small round trips, new connections, connections at rest.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::service::{ECHO, SINK, block};

/// What a round trip carries.
const SMALL: usize = 64;
/// About a hundred megabits a second.
const PAUSE: Duration = Duration::from_millis(10);

/// What is wanted of the process; its only argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    pub kind: Kind,
    pub at: SocketAddr,
    pub streams: usize,
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Kind {
    Bulk,
    /// The same, a block at a time, with a pause after each.
    Paced,
    RoundTrips,
    Openings,
    /// See `hold`.
    Hold,
}

/// What it says in the end.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Done {
    pub bytes: u64,
    pub seconds: f64,
    /// Round trips or connections, and how long they took, in microseconds.
    pub count: usize,
    pub half: f64,
    pub most: f64,
    /// Connections that were refused first, and tried again.
    pub refused: usize,
}

impl Load {
    pub async fn run(&self) -> Done {
        match self.kind {
            Kind::Bulk => bulk(self, None).await,
            Kind::Paced => bulk(self, Some(PAUSE)).await,
            // No runtime between, where one alone is measured.
            Kind::RoundTrips if self.streams == 1 => alone(self),
            Kind::RoundTrips => together(self).await,
            Kind::Openings => openings(self).await,
            Kind::Hold => {
                super::hold::hold(self).await;
                Done::default()
            }
        }
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// How often, and how soon, a caller tries again: not every way takes a hundred at once.
const TRIES: usize = 200;
const AGAIN: Duration = Duration::from_millis(20);
/// Of all streams together.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The service has answered when it returns.
pub async fn connect(at: SocketAddr, first: u8) -> TcpStream {
    for _ in 1..TRIES {
        if let Ok(socket) = try_connect(at, first).await {
            return socket;
        }
        REFUSED.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(AGAIN).await;
    }
    try_connect(at, first).await.unwrap_or_else(|why| panic!("{at}, after {TRIES} tries: {why}"))
}

async fn try_connect(at: SocketAddr, first: u8) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(at).await?;
    socket.set_nodelay(true)?;
    // A sink answers with its name, an echo with what it was sent.
    let (sent, back): (&[u8], u8) = if first == ECHO { (&[ECHO, 7], 7) } else { (&[SINK], SINK) };
    socket.write_all(sent).await?;
    if socket.read_u8().await? == back { Ok(socket) } else { Err(std::io::Error::other("another byte came back")) }
}

/// All streams are open before the first byte of bulk goes out. At the end each is told by the service how much arrived.
async fn bulk(load: &Load, pause: Option<Duration>) -> Done {
    let (start, block) = (Arc::new(Barrier::new(load.streams + 1)), Arc::new(block()));
    let mut streams = JoinSet::new();
    for _ in 0..load.streams {
        let (start, block, at, span) = (Arc::clone(&start), Arc::clone(&block), load.at, load.span());
        streams.spawn(async move {
            let mut socket = connect(at, SINK).await;
            start.wait().await;
            let (begun, mut sent) = (Instant::now(), 0_u64);
            while begun.elapsed() < span {
                socket.write_all(&block).await.unwrap_or_else(|why| panic!("after {sent} bytes: {why}"));
                sent += block.len() as u64;
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
            }
            socket.shutdown().await.unwrap_or_else(|why| panic!("after {sent} bytes: {why}"));
            let arrived = socket.read_u64().await.unwrap_or_else(|why| panic!("of {sent} bytes: {why}"));
            assert_eq!(arrived, sent, "bytes were lost");
            sent
        });
    }
    start.wait().await;
    let begun = Instant::now();
    let bytes = streams.join_all().await.into_iter().sum();
    Done { bytes, seconds: begun.elapsed().as_secs_f64(), refused: refused(), ..Done::default() }
}

fn alone(load: &Load) -> Done {
    let mut socket = std::net::TcpStream::connect(load.at).unwrap_or_else(|why| panic!("{}: {why}", load.at));
    let _ = socket.set_nodelay(true);
    let _ = socket.write_all(&[ECHO]);
    let (begun, mut took) = (Instant::now(), Vec::new());
    // The first ones make the way warm, and are not counted.
    let warm = load.span().min(Duration::from_millis(200));
    while begun.elapsed() < load.span() + warm {
        let sent = small(took.len());
        let at = Instant::now();
        let mut back = [0; SMALL];
        let done = socket.write_all(&sent).and_then(|()| socket.read_exact(&mut back));
        done.unwrap_or_else(|why| panic!("after {} round trips: {why}", took.len()));
        assert_eq!(sent, back, "other bytes came back");
        if begun.elapsed() >= warm {
            took.push(at.elapsed());
        }
    }
    summed(took, load.seconds)
}

async fn together(load: &Load) -> Done {
    let mut streams = JoinSet::new();
    for _ in 0..load.streams {
        let (at, span) = (load.at, load.span());
        streams.spawn(async move {
            let mut socket = connect(at, ECHO).await;
            let (begun, mut took) = (Instant::now(), Vec::new());
            while begun.elapsed() < span {
                let sent = small(took.len());
                let at = Instant::now();
                let mut back = [0; SMALL];
                socket.write_all(&sent).await.unwrap_or_else(|why| panic!("{why}"));
                socket.read_exact(&mut back).await.unwrap_or_else(|why| panic!("{why}"));
                assert_eq!(sent, back, "other bytes came back");
                took.push(at.elapsed());
            }
            took
        });
    }
    summed(streams.join_all().await.into_iter().flatten().collect(), load.seconds)
}

/// Opened, one byte there and back, ended by both sides; so many at a time.
async fn openings(load: &Load) -> Done {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..load.streams {
        let (at, span) = (load.at, load.span());
        callers.spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < span {
                let since = Instant::now();
                let mut socket = connect(at, ECHO).await;
                socket.shutdown().await.unwrap_or_else(|why| panic!("connection {}: {why}", took.len()));
                let more = socket.read(&mut [0]).await.unwrap_or_else(|why| panic!("connection {}: {why}", took.len()));
                assert_eq!(more, 0, "bytes came that nobody sent");
                took.push(since.elapsed());
            }
            took
        });
    }
    let took: Vec<Duration> = callers.join_all().await.into_iter().flatten().collect();
    summed(took, begun.elapsed().as_secs_f64())
}

fn small(number: usize) -> [u8; SMALL] {
    let number = number.to_le_bytes();
    std::array::from_fn(|at| number.get(at % number.len()).copied().unwrap_or_default())
}

fn summed(mut took: Vec<Duration>, seconds: f64) -> Done {
    took.sort_unstable();
    let of_hundred = |percent: usize| {
        let at = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
    };
    Done { bytes: 0, seconds, count: took.len(), half: of_hundred(50), most: of_hundred(99), refused: refused() }
}

fn refused() -> usize {
    REFUSED.load(Ordering::Relaxed)
}
