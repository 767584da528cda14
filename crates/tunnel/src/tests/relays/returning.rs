//! Relays that stop and come back, in each way in which something stops: nodes are back at them at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::accept::by_relay::wait_at_relays;
use crate::tests::relays::relaying::Bay;
use crate::tests::town::{until, within};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nobody listens.
    Refuses,
    /// Something takes connections and ends them.
    BreaksOff,
    /// Nothing is answered: the kernel drops what there is no room for.
    Drops,
}

/// The way to a relay, which carries, or stops in one of these ways.
struct Way {
    address: SocketAddr,
    there: SocketAddr,
    /// How many were taken.
    taken: Arc<AtomicU32>,
    now: Option<JoinHandle<()>>,
    /// What was carried is cut.
    cut: watch::Sender<u32>,
}

fn bound(at: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(at).unwrap();
    socket
}

impl Way {
    async fn to(there: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut way = Self { address, there, taken: Arc::default(), now: None, cut: watch::Sender::new(0) };
        way.carry(listener);
        way
    }

    fn carry(&mut self, listener: TcpListener) {
        let (there, taken, cut) = (self.there, Arc::clone(&self.taken), self.cut.subscribe());
        self.now = Some(tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                taken.fetch_add(1, Ordering::Relaxed);
                let mut cut = cut.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let mut out = TcpStream::connect(there).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut socket, &mut out) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        }));
    }

    async fn end(&mut self) {
        if let Some(now) = self.now.take() {
            now.abort();
            let _ = now.await;
        }
        self.cut.send_modify(|times| *times += 1);
    }

    async fn stop(&mut self, how: Stop) {
        self.end().await;
        self.taken.store(0, Ordering::Relaxed);
        let (socket, taken) = (bound(self.address), Arc::clone(&self.taken));
        self.now = Some(match how {
            Stop::Refuses => tokio::spawn(async move {
                let _bound = socket;
                std::future::pending::<()>().await;
            }),
            Stop::BreaksOff => {
                let listener = socket.listen(1024).unwrap();
                tokio::spawn(async move {
                    while let Ok((_ends, _)) = listener.accept().await {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                })
            }
            Stop::Drops => {
                let listener = socket.listen(0).unwrap();
                let fills = TcpStream::connect(self.address).await.unwrap();
                tokio::spawn(async move {
                    let _listens = (listener, fills);
                    std::future::pending::<()>().await;
                })
            }
        });
    }

    async fn come_back(&mut self) {
        self.end().await;
        self.taken.store(0, Ordering::Relaxed);
        self.carry(bound(self.address).listen(1024).unwrap());
    }

    fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Always the same ones.
fn stops() -> impl Iterator<Item = (usize, Stop)> {
    let mut seed = 0x2026_1119_u64;
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = usize::try_from(seed >> 60).unwrap();
        (drawn % 2, [Stop::Refuses, Stop::BreaksOff, Stop::Drops][drawn / 2 % 3])
    })
}

/// A node that asks more and more seldom has not asked so often after half a minute.
const OFTEN: u32 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_stop_at_random_under_load_are_waited_at_as_soon_as_they_are_back() {
    let mut bay = Bay::open_and_leave(2).await;
    let mut ways = [Way::to(bay.relays[0].address).await, Way::to(bay.relays[1].address).await];
    let at: BTreeMap<_, _> =
        bay.relays.iter().zip(&ways).map(|(relay, way)| (relay.state.node.clone(), way.address)).collect();
    bay.nas.know_relays(&at);
    let bay = Arc::new(bay);
    let _attends = tokio::spawn(wait_at_relays(Arc::clone(&bay.nas.state), bay.nas.dialer.clone()));
    for relay in 0..2 {
        bay.until_waited_at(relay).await;
    }
    let caller = Arc::clone(&bay);
    let load = tokio::spawn(async move {
        loop {
            // Some fail, and some are cut.
            if let Ok(mut program) = caller.beta.call("wiki").await {
                let _ends = program.write_all(b"ahoy").await;
                let _cut = program.read_exact(&mut [0; 4]).await;
            }
        }
    });
    let carried = |relay: usize| bay.relays[relay].state.meter.relayed.view().waiting;
    for (relay, how) in stops().take(7) {
        ways[relay].stop(how).await;
        until("nobody waits there any more", || carried(relay) == 0).await;
        if how == Stop::BreaksOff {
            let asks = async { until("it asks again and again", || ways[relay].taken() >= OFTEN).await };
            tokio::time::timeout(Duration::from_secs(20), asks)
                .await
                .expect("it asks as often as one that is not there");
        }
        ways[relay].come_back().await;
        within(bay.until_waited_at(relay)).await;
    }
    load.abort();
    within(bay.beta.echoes("wiki")).await.unwrap();
}
