//! Whoever is at home here: SVIDs with their keys, and TLS settings that show the one of now (a certificate resolver).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use identity::key::P256Key;
use identity::principal::Principal;
use pki_types::CertificateDer;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};
use wire::tls::peer::{self, Bench};
use wire::tls::{Judgment, TlsSetup, Vouched};

use crate::control::order::KeyedSvid;

#[derive(Debug)]
pub(crate) struct LocalSvids {
    /// The node itself, which peers meet.
    node: Principal,
    ready: Arc<ArcSwap<ReadySvids>>,
    bench: Bench,
    clients: Mutex<HashMap<Principal, Arc<ClientConfig>>>,
}

/// Ready for TLS.
type ReadySvids = HashMap<Principal, Arc<CertifiedKey>>;

#[derive(Debug, thiserror::Error)]
pub enum BadSvid {
    #[error("the key of `{0}` cannot be used")]
    Key(Principal),
    #[error(transparent)]
    Tls(#[from] TlsSetup),
}

impl LocalSvids {
    pub(crate) fn new(node: Principal, judgment: Judgment) -> Self {
        let judgment = Arc::new(ArcSwap::from_pointee(judgment));
        let bench = Bench { judgment, vouched: Arc::<Vouched>::default() };
        Self { node, ready: Arc::default(), bench, clients: Mutex::default() }
    }

    /// From now on peers are judged by that in handshakes.
    pub(crate) fn judge_by(&self, judgment: Judgment) {
        self.bench.judgment.store(Arc::new(judgment));
    }

    pub(crate) fn replace(&self, all: &[KeyedSvid]) -> Result<(), BadSvid> {
        let mut ready = HashMap::new();
        for svid in all {
            let bad = || BadSvid::Key(svid.principal.clone());
            let key = P256Key::from_pkcs8(&svid.key.0).map_err(|_| bad())?;
            let chain = svid.chain.iter().map(|der| der.0.clone().into()).collect();
            let certified = wire::tls::certified(chain, &key)?;
            ready.insert(svid.principal.clone(), Arc::new(certified));
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|principal, _| ready.contains_key(principal));
        self.ready.store(Arc::new(ready));
        Ok(())
    }

    pub(crate) fn speaks_for(&self, principal: &Principal) -> bool {
        self.ready.load().contains_key(principal)
    }

    /// What a principal at home here shows of itself.
    pub(crate) fn chain_of(&self, principal: &Principal) -> Option<Vec<CertificateDer<'static>>> {
        self.ready.load().get(principal).map(|own| own.cert.clone())
    }

    /// Everybody at home here, in order.
    pub(crate) fn principals(&self) -> Vec<Principal> {
        let mut all: Vec<Principal> = self.ready.load().keys().cloned().collect();
        all.sort();
        all
    }

    /// Peers meet the node itself.
    pub(crate) fn server(&self) -> Result<ServerConfig, TlsSetup> {
        peer::server(self.bench.clone(), Arc::new(self.resolver(&self.node)))
    }

    /// Calls are in the name of whoever calls. One that is not at home here has nothing to show, and is refused.
    pub(crate) fn client(&self, own: &Principal) -> Result<Arc<ClientConfig>, TlsSetup> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = clients.get(own) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(peer::client(self.bench.clone(), Arc::new(self.resolver(own)))?);
        clients.insert(own.clone(), Arc::clone(&config));
        Ok(config)
    }

    /// What a handshake proved of the peer; once.
    pub(crate) fn vouched(&self) -> &Vouched {
        &self.bench.vouched
    }

    fn resolver(&self, own: &Principal) -> SvidResolver {
        SvidResolver { own: own.clone(), ready: Arc::clone(&self.ready) }
    }
}

/// Shows one principal's SVID of now.
#[derive(Debug)]
struct SvidResolver {
    own: Principal,
    ready: Arc<ArcSwap<ReadySvids>>,
}

impl SvidResolver {
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.ready.load().get(&self.own).cloned()
    }
}

impl ResolvesServerCert for SvidResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl ResolvesClientCert for SvidResolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current()
    }

    fn has_certs(&self) -> bool {
        self.current().is_some()
    }
}
