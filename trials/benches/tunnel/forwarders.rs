//! The least that a tunnel does, written as well as one can: pairs of processes that forward TCP, over TCP, TLS or QUIC.
//!
//! They know no names, decide nothing, count nothing, and log nothing. Over TLS each stream has a connection and a handshake
//! of its own; over QUIC one connection carries all.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use pki_types::ServerName;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, RecvStream, SendStream, TransportConfig, VarInt};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::papers::{NAME, Papers};

/// As much as the tunnel reads at once.
const BUFFER: usize = 64 << 10;
/// Packets whose bytes are written together.
const CHUNKS: usize = 32;
/// The only settings that are not quinn's own: it lives while nothing is said, and carries as many as the tunnel does.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const STREAMS: u32 = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    Tcp,
    Tls,
    Quic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Programs connect to it.
    Near,
    /// It connects to the service.
    Far,
}

/// What one end does; its only argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Forward {
    pub by: By,
    pub end: End,
    pub listen: SocketAddr,
    pub to: SocketAddr,
    pub papers: PathBuf,
}

impl Forward {
    /// Until it is killed.
    pub async fn run(&self) {
        let papers = Papers(self.papers.clone());
        match (self.by, self.end) {
            (By::Tcp, _) => self.tcp().await,
            (By::Tls, End::Near) => self.tls_near(TlsConnector::from(Arc::new(papers.client()))).await,
            (By::Tls, End::Far) => self.tls_far(TlsAcceptor::from(Arc::new(papers.server()))).await,
            (By::Quic, End::Near) => self.quic_near(&papers).await,
            (By::Quic, End::Far) => self.quic_far(&papers).await,
        }
    }

    /// Says where it listens.
    async fn listener(&self) -> TcpListener {
        let listener = TcpListener::bind(self.listen).await.unwrap_or_else(|why| panic!("{}: {why}", self.listen));
        say(listener.local_addr());
        listener
    }

    async fn tcp(&self) {
        let (listener, to) = (self.listener().await, self.to);
        loop {
            let Some(from) = accepted(&listener).await else { continue };
            tokio::spawn(async move {
                let Some(to) = connected(to).await else { return };
                join(from, to).await;
            });
        }
    }

    async fn tls_near(&self, connector: TlsConnector) {
        let (listener, to) = (self.listener().await, self.to);
        let name = ServerName::try_from(NAME).unwrap();
        loop {
            let Some(from) = accepted(&listener).await else { continue };
            let (connector, name) = (connector.clone(), name.clone());
            tokio::spawn(async move {
                let Some(to) = connected(to).await else { return };
                match connector.connect(name, to).await {
                    Ok(to) => join(from, to).await,
                    Err(why) => eprintln!("the near end: {why}"),
                }
            });
        }
    }

    async fn tls_far(&self, acceptor: TlsAcceptor) {
        let (listener, to) = (self.listener().await, self.to);
        loop {
            let Some(from) = accepted(&listener).await else { continue };
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match acceptor.accept(from).await {
                    Ok(from) => {
                        let Some(to) = connected(to).await else { return };
                        join(from, to).await;
                    }
                    Err(why) => eprintln!("the far end: {why}"),
                }
            });
        }
    }

    async fn quic_near(&self, papers: &Papers) {
        let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(papers.client()).unwrap()));
        config.transport_config(Arc::new(transport()));
        let mut endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        endpoint.set_default_client_config(config);
        let connection = endpoint.connect(self.to, NAME).unwrap().await.unwrap();
        let listener = self.listener().await;
        loop {
            let Some(from) = accepted(&listener).await else { continue };
            let connection = connection.clone();
            tokio::spawn(async move {
                match connection.open_bi().await {
                    Ok(stream) => carry(from, stream).await,
                    Err(why) => eprintln!("the near end: {why}"),
                }
            });
        }
    }

    async fn quic_far(&self, papers: &Papers) {
        let crypto = QuicServerConfig::try_from(papers.server()).unwrap();
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let endpoint = Endpoint::server(config, self.listen).unwrap();
        say(endpoint.local_addr());
        while let Some(incoming) = endpoint.accept().await {
            let (Ok(connection), to) = (incoming.await, self.to) else { continue };
            tokio::spawn(quic_streams(connection, to));
        }
    }
}

async fn quic_streams(connection: Connection, to: SocketAddr) {
    while let Ok(stream) = connection.accept_bi().await {
        tokio::spawn(async move {
            let Some(to) = connected(to).await else { return };
            carry(to, stream).await;
        });
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS));
    transport
}

fn say(at: std::io::Result<SocketAddr>) {
    println!("{}", serde_json::json!({ "listens": at.map(|at| at.to_string()).unwrap_or_default() }));
}

async fn accepted(listener: &TcpListener) -> Option<TcpStream> {
    let (socket, _) = listener.accept().await.ok()?;
    socket.set_nodelay(true).ok()?;
    Some(socket)
}

async fn connected(to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpStream::connect(to).await.ok()?;
    socket.set_nodelay(true).ok()?;
    Some(socket)
}

async fn join(mut one: impl AsyncRead + AsyncWrite + Unpin, mut other: impl AsyncRead + AsyncWrite + Unpin) {
    // Whoever put the load on it sees how it ended.
    let _ = copy_bidirectional_with_sizes(&mut one, &mut other, BUFFER, BUFFER).await;
}

async fn carry(socket: TcpStream, (to, from): (SendStream, RecvStream)) {
    let (near, to_near) = socket.into_split();
    let _ = tokio::join!(send(near, to), receive(from, to_near));
}

async fn send(mut near: OwnedReadHalf, mut to: SendStream) -> std::io::Result<()> {
    let mut room = vec![0; BUFFER];
    loop {
        let read = near.read(&mut room).await?;
        if read == 0 {
            let _ = to.finish();
            // What was written is on its way only as long as somebody holds it.
            let _ = to.stopped().await;
            return Ok(());
        }
        to.write_all(room.get(..read).unwrap_or_default()).await?;
    }
}

async fn receive(mut from: RecvStream, mut near: OwnedWriteHalf) -> std::io::Result<()> {
    let mut chunks: [Bytes; CHUNKS] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = from.read_chunks(&mut chunks).await? {
        let (chunks, mut first) = (chunks.get_mut(..count).unwrap_or_default(), 0);
        while first < chunks.len() {
            let slices: [IoSlice<'_>; CHUNKS] =
                std::array::from_fn(|at| IoSlice::new(chunks.get(first + at).map_or(&[], AsRef::as_ref)));
            let mut written = near.write_vectored(slices.get(..count - first).unwrap_or_default()).await?;
            while let Some(chunk) = chunks.get_mut(first) {
                let part = written.min(chunk.len());
                chunk.advance(part);
                written -= part;
                if !chunk.is_empty() {
                    break;
                }
                first += 1;
            }
        }
    }
    near.shutdown().await
}
