//! One connection, from TCP to its end; and the one that it carries, if it is a WebSocket.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use ground::quota::QuotaPermit;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use wire::carry::WebSocket;
use wire::carry::frame;
use wire::carry::proxied::{self, Whose};
use wire::tls::{self, EXPORTER_LABEL};

use crate::gateway::Gateway;
use crate::limit::download::{Minute, Progress};
use crate::port::conversation::{Carriage, Conversation};
use crate::port::ingress::Ingress;

const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Headers must arrive in this time; for members it is also how long a connection may rest.
const STRANGER_HEADER_TIME: Duration = Duration::from_secs(10);
const MEMBER_HEADER_TIME: Duration = Duration::from_secs(150);
/// A stranger has this long for everything but downloads that go on, whatever it is inside of.
const STRANGER_TIME: Duration = Duration::from_mins(1);
const MAX_HEADER_BYTES: usize = 16 << 10;
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Guest {
    gateway: Arc<Gateway>,
    ingress: Arc<Ingress>,
    source: IpAddr,
    /// A stranger's place. A member gives it back.
    permit: Option<QuotaPermit<IpAddr>>,
    until: Instant,
    _slot: OwnedSemaphorePermit,
}

impl Guest {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        ingress: Arc<Ingress>,
        source: IpAddr,
        permit: Option<QuotaPermit<IpAddr>>,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        Self { gateway, ingress, source, permit, until: Instant::now() + STRANGER_TIME, _slot: slot }
    }

    /// A connection that a proxy passes on: it says first for whom. Without that there is no conversation.
    pub(crate) async fn introduce(mut self, mut stream: TcpStream, acceptor: TlsAcceptor, stop: watch::Receiver<bool>) {
        match timeout(HANDSHAKE_TIME, proxied::read(&mut stream)).await {
            Ok(Ok(Whose::Proxy)) => {}
            Ok(Ok(Whose::Client(client))) => match self.ingress.enter(client) {
                Ok(permit) => (self.source, self.permit) = (client, permit),
                Err(_) => return self.gateway.callers.tally.turned_away(),
            },
            Ok(Err(why)) => {
                tracing::warn!(proxy = %self.source, %why, "a proxy that is named does not say for whom it calls");
                return;
            }
            Err(_) => return,
        }
        self.entertain(stream, acceptor, stop).await;
    }

    pub(crate) async fn entertain(mut self, stream: TcpStream, acceptor: TlsAcceptor, stop: watch::Receiver<bool>) {
        let _ = stream.set_nodelay(true);
        let Some(carriage) = self.host(stream, acceptor.clone(), false, stop.clone()).await else {
            return;
        };
        // Boxed: most connections carry no other, and have no room to spare for it.
        Box::pin(async move {
            let Ok(Ok(upgraded)) = timeout(HANDSHAKE_TIME, carriage.upgrade).await else {
                return;
            };
            self.source = carriage.source;
            self.permit = carriage.permit.or(self.permit);
            let inside = WebSocket::new(TokioIo::new(upgraded), frame::From::Client);
            self.host(inside, acceptor, true, stop).await;
        })
        .await;
    }

    /// With whom the handshake was.
    fn converse(&self, session: &ServerConnection, carried: bool) -> Option<Arc<Conversation>> {
        let exporter = session.export_keying_material([0; 32], EXPORTER_LABEL, None).ok()?;
        let chain = session.peer_certificates().unwrap_or_default();
        let post_quantum = tls::is_post_quantum(session);
        // Nothing is carried inside of what is carried.
        let ingress = (!carried).then(|| Arc::clone(&self.ingress));
        let gateway = Arc::clone(&self.gateway);
        let conversation = Conversation::new(gateway, self.source, exporter, post_quantum, chain);
        Some(Arc::new(conversation.behind(ingress)))
    }

    /// TLS, who it is, and the whole conversation; what it leads to if it becomes a WebSocket.
    async fn host<S>(
        &mut self,
        stream: S,
        acceptor: TlsAcceptor,
        carried: bool,
        mut stop: watch::Receiver<bool>,
    ) -> Option<Carriage>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Boxed, both of them: thousands of connections rest here, and none has room to spare for a handshake that is
        // over, or for a second place where its stream once was.
        let Ok(Ok(stream)) = Box::pin(timeout(HANDSHAKE_TIME, acceptor.accept(stream))).await else {
            return None;
        };
        let stream = Box::new(stream);
        let conversation = self.converse(stream.get_ref().1, carried)?;
        let registry = &self.gateway.callers.registry;
        let place = match conversation.peer().map(|peer| registry.enter(peer.node_key(), peer.roots(), clock::now())) {
            None => None,
            Some(Some(place)) => Some(place),
            // More than one machine has use for.
            Some(None) => return None,
        };
        if place.is_some() {
            self.permit = None;
        }
        let header_time = if place.is_some() { MEMBER_HEADER_TIME } else { STRANGER_HEADER_TIME };
        let (asked, downloads) = (Arc::clone(&conversation), Arc::clone(&conversation.downloads));
        let service = service_fn(move |request| {
            let conversation = Arc::clone(&asked);
            async move { Ok::<_, std::convert::Infallible>(conversation.answer(request).await) }
        });
        let connection = http(header_time).serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::pin!(connection);
        let cut = async {
            match &place {
                Some(place) => place.cut.notified().await,
                None => std::future::pending().await,
            }
        };
        let over = minutes(&downloads, place.is_some(), self.until);
        tokio::select! {
            _ = connection.as_mut() => return conversation.take_carriage(),
            () = cut => {}
            verdict = over => if verdict == Minute::SeenOut {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    _ = connection => {}
                    _ = Box::pin(minutes(&downloads, true, Instant::now() + STRANGER_TIME)) => {}
                    () = stopped(&mut stop) => {}
                }
            },
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(DRAIN_TIME, connection).await;
            }
        }
        None
    }
}

fn http(header_time: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(header_time).max_buf_size(MAX_HEADER_BYTES);
    http
}

/// Waits until something has to become of a connection, looking at it when the first minute is over and then each minute.
async fn minutes(downloads: &Progress, has_time: bool, mut next: Instant) -> Minute {
    loop {
        let was_open = downloads.is_open();
        tokio::time::sleep_until(next).await;
        match downloads.after_a_minute(has_time, was_open) {
            Minute::GoesOn => next = Instant::now() + STRANGER_TIME,
            verdict => return verdict,
        }
    }
}

pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
