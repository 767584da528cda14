//! The gateway's own HTTPS certificate: made at start, renewed at half its life, its key only in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use ground::{clock, random};
use identity::certificate::{self, Validity};
use identity::time::{Seconds, Timestamp};
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
    /// When it was made, half its life, and its end, in seconds since 1970.
    made: AtomicI64,
    due: AtomicI64,
    end: AtomicI64,
}

impl EndpointCertificate {
    pub fn make(gateway: &Gateway) -> Result<Self, NoCertificate> {
        let (key, life) = issue(gateway)?;
        let [made, due, end] = life.map(|at| AtomicI64::new(at.unix()));
        Ok(Self { current: ArcSwap::from_pointee(key), made, due, end })
    }

    /// A new one from now on; open connections are not disturbed.
    pub fn renew(&self, gateway: &Gateway) -> Result<(), NoCertificate> {
        let (key, [made, due, end]) = issue(gateway)?;
        self.current.store(Arc::new(key));
        self.made.store(made.unix(), Ordering::Relaxed);
        self.end.store(end.unix(), Ordering::Relaxed);
        self.due.store(due.unix(), Ordering::Relaxed);
        Ok(())
    }

    pub fn not_after(&self) -> Timestamp {
        Timestamp::from_unix(self.end.load(Ordering::Relaxed))
    }

    /// Also if the clock was put back: what was made in the future is not valid yet.
    pub fn is_due(&self, now: Timestamp) -> bool {
        !(self.made.load(Ordering::Relaxed)..self.due.load(Ordering::Relaxed)).contains(&now.unix())
    }
}

impl ResolvesServerCert for EndpointCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The certificate, when it was made, when half of its life is over, and when all of it is.
fn issue(gateway: &Gateway) -> Result<(CertifiedKey, [Timestamp; 3]), NoCertificate> {
    let now = clock::now();
    let no = |why: &dyn std::fmt::Display| NoCertificate(why.to_string());
    let mandate = gateway.mandate(now).map_err(|_| no(&gateway.why_no_mandate(now)))?;
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
    let certified = tls::certified(chain, &key).map_err(|why| no(&why))?;
    Ok((certified, [now, now + Seconds(end.since(now).0 / 2), end]))
}
