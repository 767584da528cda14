//! Serves DNS for names of services, over UDP and TCP at one port. Only this machine is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::local::names::dns;
use crate::local::opens::Opens;
use crate::local::shared::{LocalState, PAUSE, WORDS};

/// How often a free port is looked for that is free for both.
const TRIES: usize = 8;
/// What is asked over one TCP connection at most.
const QUERIES: usize = 100;
const ANSWERED: Duration = Duration::from_secs(2);

pub(crate) async fn start<O: Opens>(
    local: &Arc<LocalState<O>>,
    address: SocketAddr,
) -> io::Result<(SocketAddr, Vec<JoinHandle<()>>)> {
    let (tcp, udp) = bind(address).await?;
    let at = tcp.local_addr()?;
    Ok((at, vec![tokio::spawn(serve_udp(udp, Arc::clone(local))), tokio::spawn(serve_tcp(tcp, Arc::clone(local)))]))
}

async fn bind(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::bind(address).await?;
        match UdpSocket::bind(tcp.local_addr()?).await {
            Ok(udp) => return Ok((tcp, udp)),
            Err(why) if tries == 0 => return Err(why),
            Err(_) => {}
        }
    }
}

async fn serve_udp<O: Opens>(socket: UdpSocket, local: Arc<LocalState<O>>) {
    let mut buffer = [0; dns::LONGEST];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) if from.ip().is_loopback() => {
                let answer = buffer.get(..length).and_then(|query| answer(&local, query));
                if let Some(answer) = answer
                    && let Err(why) = socket.send_to(&answer, from).await
                {
                    tracing::debug!("cannot answer {from}: {why}");
                }
            }
            Ok((_, from)) => tracing::debug!("{from} is not of this machine"),
            Err(why) => {
                tracing::debug!("no query: {why}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve_tcp<O: Opens>(listener: TcpListener, local: Arc<LocalState<O>>) {
    loop {
        let Ok((socket, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(place) = local.programs.enter() else {
            local.meter.sent_away("too_many_programs");
            continue;
        };
        let local = Arc::clone(&local);
        tokio::spawn(async move {
            if let Err(why) = converse(&local, socket).await {
                tracing::debug!("{from} asks no more: {why}");
            }
            drop(place);
        });
    }
}

async fn converse<O: Opens>(local: &LocalState<O>, mut socket: TcpStream) -> io::Result<()> {
    let mut query = Vec::new();
    for _ in 0..QUERIES {
        let read = timeout(WORDS, async {
            let length = usize::from(socket.read_u16().await?);
            if length > dns::LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the query is too long"));
            }
            query.resize(length, 0);
            socket.read_exact(&mut query).await
        });
        read.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let Some(answer) = answer(local, &query) else {
            return Ok(());
        };
        // Never longer than a query and a few bytes.
        let mut framed = u16::try_from(answer.len()).unwrap_or(0).to_be_bytes().to_vec();
        framed.extend(answer);
        timeout(ANSWERED, socket.write_all(&framed)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
    Ok(())
}

fn answer<O>(local: &LocalState<O>, query: &[u8]) -> Option<Vec<u8>> {
    let auth = local.auth.load_full()?;
    dns::answer(query, &auth.org, &local.named.load())
}
