//! The gateway's port: takes connections, bounds them, and ends in good order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::principal::Address;
use identity::time::{Seconds, Timestamp};
use member::agent;
use member::store::scope::{Scope, ScopeError};
use org::gateway::ENDS_SOON;
use org::refusal::Refusal;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wire::connect::GatewayAddress;
use wire::http::metrics::port::{self, NoPort};
use wire::tls;

use crate::answer::operator::files;
use crate::gateway::{Gateway, GatewayError};
use crate::limit::limits::{Bounds, Limits, quota_per_address};
use crate::port::endpoint::{EndpointCertificate, NoCertificate};
use crate::port::guest::{DRAIN_TIME, Guest, stopped};
use crate::port::ingress::{Ingress, Proxies};
use crate::port::metrics::Watched;
use crate::replicate::{mesh, peering};
use crate::store::files::FilesError;
use crate::store::folder::{GatewayFolder, ServingFile, loopback};
use crate::write::issuers::Issuers;

/// The ledger, the gateway's own calls, logs.
const OTHER_FILES: usize = 64;
const CATCH_UP_TIME: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// By the wall clock, so that neither sleep nor a clock that is set matters.
const CERTIFICATE_EVERY: Duration = Duration::from_secs(5);
const ADDRESS_EVERY: Duration = Duration::from_secs(1);
const WATCH_EVERY: Duration = Duration::from_hours(1);

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    pub listen: SocketAddr,
    /// Where to show metrics.
    pub metrics: Option<SocketAddr>,
    pub bounds: Bounds,
    pub proxies: Proxies,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Folder(#[from] ScopeError),
    #[error(transparent)]
    Certificate(#[from] NoCertificate),
    #[error(transparent)]
    Tls(#[from] tls::TlsSetup),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Metrics(#[from] NoPort),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Opens a port, and says which.
async fn open_port(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let opened = TcpListener::bind(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
    opened.map(|(local, listener)| (listener, local)).map_err(|source| ServeError::Listen { address, source })
}

/// Serves until `stop` says so. `ready` is called once the port is open.
pub async fn serve(
    folder: &GatewayFolder,
    ServeOptions { listen, metrics, bounds, proxies }: ServeOptions,
    mut stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Gateway, SocketAddr),
) -> Result<(), ServeError> {
    let mut gateway = open_patiently(folder).await?;
    gateway.callers.limits = Arc::new(Limits::new(bounds));
    let gateway = Arc::new(gateway);
    catch_up(&gateway, &folder.scope()).await;
    gateway.speak_first().await?;
    files::put_roots(&gateway)?;
    let certificate = Arc::new(EndpointCertificate::make(&gateway)?);
    let acceptor = acceptor(&gateway, &certificate)?;
    let (listener, local) = open_port(listen).await?;
    let metrics = port::listen(metrics).await?;
    let own = own_listener(&proxies, local).await?;
    let serving = ServingFile { listen: local, pid: std::process::id(), own: own.as_ref().and_then(address_of) };
    folder.save_serving(&serving)?;
    ready(&gateway, local);

    let mut background = JoinSet::new();
    keep_in_order(&mut background, &gateway, &certificate, folder);
    let agent = Arc::<agent::metrics::Tally>::default();
    let own_agent =
        run_own_agent(Arc::clone(&gateway), folder.clone(), serving.dial(), Arc::clone(&agent), stop.clone());
    background.spawn(own_agent);

    let places = places(bounds.connections);
    let slots = Arc::new(Semaphore::new(places));
    let per_address = quota_per_address(places, bounds.connections_per_address);
    let ingress = Arc::new(Ingress { proxies, per_address });
    if let Some(listener) = metrics {
        let (gateway, free, ledger) = (Arc::clone(&gateway), Arc::clone(&slots), folder.path("ledger.db"));
        let watched = Watched { gateway, certificate, agent, ledger, places, free };
        background.spawn(port::answer(listener, move || watched.clone().page()));
    }
    let door = Door { gateway: Arc::clone(&gateway), ingress, slots, acceptor, stop: stop.clone() };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            (accepted, is_own) = accept(&listener, own.as_ref()) => match accepted {
                Ok((stream, source)) => door.let_in(&mut connections, stream, source.ip().to_canonical(), is_own),
                Err(why) => {
                    tracing::warn!(%why, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop((listener, own));
    gateway.shelf.close();
    background.shutdown().await;
    let _ = timeout(DRAIN_TIME, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
    folder.forget_serving();
    Ok(())
}

/// TLS by what is true at each moment.
fn acceptor(gateway: &Gateway, certificate: &Arc<EndpointCertificate>) -> Result<TlsAcceptor, tls::TlsSetup> {
    let (judgment, vouched) = (Arc::clone(&gateway.judgment), Arc::clone(&gateway.vouched));
    Ok(TlsAcceptor::from(tls::server(judgment, vouched, Arc::clone(certificate) as _)?))
}

/// What every connection takes with it.
struct Door {
    gateway: Arc<Gateway>,
    ingress: Arc<Ingress>,
    slots: Arc<Semaphore>,
    acceptor: TlsAcceptor,
    stop: watch::Receiver<bool>,
}

impl Door {
    /// No slot, or more than an address's share: closed at once, before it can cost anything.
    fn let_in(&self, connections: &mut JoinSet<()>, stream: TcpStream, source: IpAddr, is_own: bool) {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let (Ok(slot), Ok(permit)) = (slot, self.ingress.enter(source)) else {
            return self.gateway.callers.tally.turned_away();
        };
        let guest = Guest::new(Arc::clone(&self.gateway), Arc::clone(&self.ingress), source, permit, slot);
        let (acceptor, stop) = (self.acceptor.clone(), self.stop.clone());
        if !is_own && self.ingress.proxies.speaks_proxy(source) {
            connections.spawn(guest.introduce(stream, acceptor, stop));
        } else {
            connections.spawn(guest.entertain(stream, acceptor, stop));
        }
    }
}

/// What is done beside answering.
fn keep_in_order(
    background: &mut JoinSet<()>,
    gateway: &Arc<Gateway>,
    certificate: &Arc<EndpointCertificate>,
    folder: &GatewayFolder,
) {
    background.spawn(keep_certificate(Arc::clone(gateway), Arc::clone(certificate)));
    background.spawn(warn_early(Arc::clone(gateway)));
    background.spawn(peering::keep(Arc::clone(gateway), folder.scope()));
    background.spawn(files::keep_swept(Arc::clone(gateway)));
}

/// Where this machine's own programs come in if what calls from here must say for whom: they speak for themselves.
async fn own_listener(proxies: &Proxies, local: SocketAddr) -> Result<Option<TcpListener>, ServeError> {
    let here = loopback(local).ip();
    if !proxies.speaks_proxy(here) {
        return Ok(None);
    }
    Ok(Some(open_port(SocketAddr::new(here, 0)).await?.0))
}

fn address_of(listener: &TcpListener) -> Option<SocketAddr> {
    listener.local_addr().ok()
}

/// The next connection, and whether it came by the machine's own listener.
async fn accept(listener: &TcpListener, own: Option<&TcpListener>) -> (io::Result<(TcpStream, SocketAddr)>, bool) {
    match own {
        None => (listener.accept().await, false),
        Some(own) => tokio::select! {
            accepted = listener.accept() => (accepted, false),
            accepted = own.accept() => (accepted, true),
        },
    }
}

/// Whoever slept, or is new, takes what the others have before it answers anybody; for a moment, for they may be gone.
async fn catch_up(gateway: &Arc<Gateway>, scope: &Scope) {
    let others = mesh::addresses_of(&gateway.judgment.load().head, &gateway.about.node, clock::now());
    for (peer, addresses) in others {
        let mut told = |_, _| {};
        let other = mesh::OtherGateway { name: peer.clone(), addresses, scope: scope.clone() };
        let caught_up = mesh::catch_up(gateway, &other, &mut told);
        match timeout(CATCH_UP_TIME, caught_up).await {
            Ok(Ok(())) => return,
            Ok(Err(why)) => {
                let why = describe(&why);
                tracing::info!(gateway = %peer, why, "cannot exchange with another gateway yet");
            }
            Err(_) => tracing::info!(gateway = %peer, "another gateway does not answer yet"),
        }
    }
}

/// How many connections there is room for: as many as the system lets this process have, less some for files.
fn places(most: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let open = if raised.is_ok() { limit.maximum } else { limit.current };
    let open = open.map_or(most, |open| usize::try_from(open).unwrap_or(most));
    most.min(open.saturating_sub(OTHER_FILES).max(1))
}

/// A command may hold the folder for a moment; another gateway holds it for good.
async fn open_patiently(folder: &GatewayFolder) -> Result<Gateway, GatewayError> {
    for _ in 0..20 {
        match Gateway::open_to_serve(folder) {
            Err(GatewayError::Busy) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => return other,
        }
    }
    Gateway::open_to_serve(folder)
}

async fn keep_certificate(gateway: Arc<Gateway>, certificate: Arc<EndpointCertificate>) {
    let mut settled = None;
    loop {
        if let Err(why) = keep_issuers(&gateway, &mut settled).await {
            tracing::error!(%why, "cannot bring the gateway's files in line with the head; will try again");
        }
        tokio::time::sleep(CERTIFICATE_EVERY).await;
        if !certificate.is_due(clock::now()) {
            continue;
        }
        match certificate.renew(&gateway) {
            Ok(()) => tracing::info!("renewed the gateway's certificate"),
            Err(why) => {
                tracing::error!(why = describe(&why), "will try again in a minute");
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// What could not be done when the head came is done as soon as it can be.
async fn keep_issuers(gateway: &Gateway, settled: &mut Option<Arc<Issuers>>) -> Result<(), ServeError> {
    gateway.keep_time().await;
    gateway.update_issuers(&*gateway.state().await);
    let now = gateway.keys.issuers.load_full();
    if !settled.as_ref().is_some_and(|before| Arc::ptr_eq(before, &now)) {
        gateway.settle_keys()?;
        files::put_roots(gateway)?;
        *settled = Some(now);
    }
    Ok(())
}

/// Says early what will stop working, and how to prevent it.
async fn warn_early(gateway: Arc<Gateway>) {
    loop {
        let now = clock::now();
        if let Err(why) = gateway.check_halt() {
            let origin = gateway.writer.run(|tx| tx.keep(|tx| tx.ledger.restored())).await.ok().flatten();
            let (backup, made_at) = origin.map(|origin| (origin.backup, origin.made_at.to_string())).unzip();
            tracing::error!(%why, hint = why.hint(), backup, made_at, "the gateway issues nothing");
        }
        match gateway.mandate(now) {
            Ok(mandate) if mandate.not_after.since(now) < Seconds::DAY.times(30) => {
                tracing::warn!(until = %mandate.not_after, "the gateway's mandate ends soon; renew it: freehold refresh");
            }
            Ok(_) => {}
            Err(_) => {
                let why = gateway.why_no_mandate(now);
                tracing::error!(
                    %why,
                    "the gateway cannot issue: set its clock, or an operator renews the mandate: freehold refresh"
                );
            }
        }
        let (issued_at, fresh_until) = {
            let judgment = gateway.judgment.load();
            (judgment.head.issued_at, judgment.head.fresh_until)
        };
        if issued_at > now + Seconds::HOUR {
            let apart = issued_at.since(now).roughly();
            tracing::error!(%issued_at, here = %now, "the head is {apart} ahead of this machine's clock: one of the two is wrong");
        }
        if fresh_until.since(now) < Seconds::DAY.times(7) {
            tracing::warn!(until = %fresh_until, "the head is fresh only until then, and joiners refuse it later; renew it: freehold refresh");
        }
        warn_of_issuers(&gateway.keys.issuers.load(), now);
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

fn warn_of_issuers(issuers: &Issuers, now: Timestamp) {
    for why in issuers.troubles(now) {
        tracing::error!("{why}");
    }
    for (domain, ways) in [("identity", &issuers.identity.ways), ("endpoint", &issuers.endpoint.ways)] {
        if let Some(until) = ways.active_until().filter(|until| now < *until && *until <= now + ENDS_SOON) {
            tracing::warn!(domain, %until, "an issuing certificate of this gateway ends soon; renew it: freehold rotate {domain}");
        }
        match ways.root_until() {
            Some(until) if until <= now => {
                tracing::error!(domain, %until, "the root has ended, and nothing under it is believed: freehold rotate {domain}");
            }
            Some(until) if until <= now + ENDS_SOON => {
                tracing::warn!(domain, %until, "the root ends soon; put another in its place: freehold rotate {domain}");
            }
            Some(_) | None => {}
        }
    }
}

/// The gateway's machine is an ordinary member: it renews and checks in like any other, through its own port, by the name
/// that comes first.
async fn run_own_agent(
    gateway: Arc<Gateway>,
    folder: GatewayFolder,
    local: SocketAddr,
    tally: Arc<agent::metrics::Tally>,
    mut stop: watch::Receiver<bool>,
) {
    while let Some(address) = gateway.addresses().into_iter().next() {
        let own = GatewayAddress { address: address.clone(), dial: Some(local) };
        let tried_first = Some(vec![own]);
        let options = agent::AgentOptions { tried_first, tally: Arc::clone(&tally), ..agent::AgentOptions::default() };
        let (end, ended) = watch::channel(false);
        let run = agent::run(folder.scope(), options, ended);
        tokio::pin!(run);
        let (ran, over) = tokio::select! {
            ran = &mut run => (ran, false),
            () = stopped(&mut stop) => { end.send_replace(true); (run.await, true) }
            () = comes_second(&gateway, &address) => { end.send_replace(true); (run.await, false) }
        };
        match ran {
            Ok(()) if over => return,
            Ok(()) => continue,
            // A machine that joined may have one running for itself.
            Err(agent::AgentError::AlreadyRunning) => {}
            Err(why) => {
                tracing::error!(why = describe(&why), "the gateway's own node stopped; starting it again in a minute");
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until another address comes first.
async fn comes_second(gateway: &Gateway, address: &Address) {
    while gateway.addresses().first() == Some(address) {
        tokio::time::sleep(ADDRESS_EVERY).await;
    }
}
