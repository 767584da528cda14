//! The gateway's own HTTPS certificate: made at start, renewed at half its life, its key only in memory.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ground::{clock, random};
use identity::certificate::{self, Validity};
use identity::time::Seconds;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use wire::tls;

use crate::answer::gateway::Gateway;

const LIFE: Seconds = Seconds::DAY.times(7);

#[derive(Debug, thiserror::Error)]
#[error("the gateway's certificate could not be made: {0}")]
pub struct NoCertificate(String);

#[derive(Debug)]
pub struct EndpointCertificate {
    current: ArcSwap<CertifiedKey>,
}

impl EndpointCertificate {
    pub fn make(gateway: &Gateway) -> Result<Self, NoCertificate> {
        Ok(Self { current: ArcSwap::from_pointee(issue(gateway)?) })
    }

    /// A new one from now on; open connections are not disturbed.
    pub fn renew(&self, gateway: &Gateway) -> Result<(), NoCertificate> {
        self.current.store(Arc::new(issue(gateway)?));
        Ok(())
    }

    pub const fn renew_after() -> std::time::Duration {
        std::time::Duration::from_secs(LIFE.0 / 2)
    }
}

impl ResolvesServerCert for EndpointCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn issue(gateway: &Gateway) -> Result<CertifiedKey, NoCertificate> {
    let now = clock::now();
    let no = |why: &dyn std::fmt::Display| NoCertificate(why.to_string());
    let mandate = gateway.mandate(now).map_err(|why| no(&why))?;
    let key = random::p256().map_err(|why| no(&why))?;
    let request = certificate::make_request(&key).and_then(|der| certificate::read_request(&der));
    let request = request.map_err(|why| no(&why))?;
    let serial = random::serial().map_err(|why| no(&why))?;
    // Never beyond the mandate: it would not be believed anyway.
    let end = (now + LIFE).min(mandate.not_after);
    let authority = &gateway.keys.endpoint;
    let leaf = authority.issue_endpoint(&mandate.hosts, &request, serial, Validity::until(now, end));
    let leaf = leaf.map_err(|why| no(&why))?;
    let chain = vec![leaf, authority.certificate().clone(), gateway.keys.endpoint_root.clone()];
    tls::certified(chain, &key).map_err(|why| no(&why))
}
