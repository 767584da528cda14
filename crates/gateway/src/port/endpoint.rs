//! The gateway's own HTTPS certificate: made at start, renewed at half its life, its key only in memory.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use ground::random::NoRandomness;
use ground::{clock, random};
use identity::certificate::{self, BadCertificate, Validity};
use identity::principal::Host;
use identity::time::{Seconds, Timestamp};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use wire::tls;

use crate::gateway::{Gateway, NoMandate};
use crate::write::issuers::Issuers;

const LIFE: Seconds = Seconds::DAY.times(7);

#[derive(Debug, thiserror::Error)]
#[error("the gateway's certificate could not be made")]
pub enum NoCertificate {
    Mandate(#[source] NoMandate),
    Random(#[from] NoRandomness),
    Certificate(#[from] BadCertificate),
    Tls(#[from] tls::TlsSetup),
}

/// A certificate, and what it was made by: when that changes, it is made anew.
#[derive(Debug)]
struct Shown {
    certified: Arc<CertifiedKey>,
    issuers: Arc<Issuers>,
    /// The names in it.
    hosts: Vec<Host>,
}

impl Shown {
    /// Would one that is made now say something else?
    fn is_old(&self, gateway: &Gateway) -> bool {
        let judgment = gateway.judgment.load();
        let mandate = judgment.head.mandate_for_voice(gateway.voice());
        !Arc::ptr_eq(&self.issuers, &gateway.keys.issuers.load_full())
            || mandate.is_some_and(|mandate| mandate.hosts != self.hosts)
    }
}

#[derive(Debug)]
pub struct EndpointCertificate {
    gateway: Weak<Gateway>,
    current: ArcSwap<Shown>,
    renewing: Mutex<()>,
    /// When it was made, half its life, and its end, in seconds since 1970.
    made: AtomicI64,
    due: AtomicI64,
    end: AtomicI64,
}

impl EndpointCertificate {
    pub fn make(gateway: &Arc<Gateway>) -> Result<Self, NoCertificate> {
        let (shown, life) = issue(gateway)?;
        let [made, due, end] = life.map(|at| AtomicI64::new(at.unix()));
        let (gateway, current) = (Arc::downgrade(gateway), ArcSwap::from_pointee(shown));
        Ok(Self { gateway, current, renewing: Mutex::default(), made, due, end })
    }

    /// A new one from now on; open connections are not disturbed.
    pub fn renew(&self, gateway: &Gateway) -> Result<(), NoCertificate> {
        let (shown, [made, due, end]) = issue(gateway)?;
        self.current.store(Arc::new(shown));
        self.made.store(made.unix(), Ordering::Relaxed);
        self.end.store(end.unix(), Ordering::Relaxed);
        self.due.store(due.unix(), Ordering::Relaxed);
        Ok(())
    }

    /// Whoever heard of a new root, or of a new name, and comes at once is shown the way to it.
    fn follow(&self) {
        let is_old = |gateway: &Gateway| self.current.load().is_old(gateway);
        let Some(gateway) = self.gateway.upgrade().filter(|gateway| is_old(gateway)) else {
            return;
        };
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_old(&gateway) {
            return;
        }
        match self.renew(&gateway) {
            Ok(()) => tracing::info!("made the gateway's certificate anew: trust or its names have changed"),
            Err(why) => {
                tracing::error!(%why, "the gateway shows its former certificate");
                // Not again for each caller: whoever looks after it tries later.
                let issuers = gateway.keys.issuers.load_full();
                let judgment = gateway.judgment.load();
                let hosts = judgment.head.mandate_for_voice(gateway.voice()).map(|mandate| mandate.hosts.clone());
                let certified = Arc::clone(&self.current.load().certified);
                self.current.store(Arc::new(Shown { certified, issuers, hosts: hosts.unwrap_or_default() }));
                self.due.store(0, Ordering::Relaxed);
            }
        }
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
        self.follow();
        Some(Arc::clone(&self.current.load().certified))
    }
}

/// The certificate, when it was made, when half of its life is over, and when all of it is.
fn issue(gateway: &Gateway) -> Result<(Shown, [Timestamp; 3]), NoCertificate> {
    let now = clock::now();
    let mandate = gateway.mandate(now).map_err(|_| NoCertificate::Mandate(gateway.why_no_mandate(now)))?;
    let key = random::p256()?;
    let request = certificate::read_request(&certificate::make_request(&key)?)?;
    let serial = random::serial()?;
    // Never beyond the mandate: it would not be believed anyway.
    let end = (now + LIFE).min(mandate.not_after);
    let issuers = gateway.keys.issuers.load_full();
    let leaf = issuers.endpoint.authority.issue_endpoint(&mandate.hosts, &request, serial, Validity::until(now, end));
    let certified = tls::certified(issuers.endpoint_chain(leaf?), &key)?;
    let shown = Shown { certified: Arc::new(certified), issuers, hosts: mandate.hosts };
    Ok((shown, [now, now + Seconds(end.since(now).0 / 2), end]))
}
