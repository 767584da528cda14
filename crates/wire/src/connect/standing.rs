//! What a caller can say of its own certificate when a gateway does not take it: TLS tells it no more than an alert.

use std::fmt;

use identity::bundle::{Identity, NamedRoot, Roots};
use identity::certificate;
use identity::head::Head;
use identity::id::KeyId;
use identity::time::Timestamp;
use identity::verifier;
use pki_types::CertificateDer;

/// The caller's own side, and what the signed head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub until: Timestamp,
    pub now: Timestamp,
    /// Roots that its certificate leads to, as far as they are known here.
    pub leads_to: Vec<NamedRoot>,
    pub issuer: Option<KeyId>,
    /// What is signed, if it could be read.
    pub signed: Option<Signed>,
}

/// What a head has to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub head: u64,
    pub trusted: Vec<NamedRoot>,
    pub mandated: bool,
}

impl Signed {
    pub fn new(head: &Head, trusted: &Roots<Identity>, issuer: Option<KeyId>) -> Self {
        let mandated = head.mandates.iter().any(|mandate| Some(mandate.identity_issuer) == issuer);
        Self { head: head.version, trusted: trusted.named(), mandated }
    }
}

impl Standing {
    /// Nothing if its own certificate cannot be read.
    pub fn of(chain: &[CertificateDer<'_>], now: Timestamp) -> Option<Self> {
        let until = certificate::read(chain.first()?).ok()?.validity.not_after;
        let issuer = chain.get(1).and_then(|der| certificate::read(der).ok()).map(|read| read.key);
        Some(Self { until, now, leads_to: Vec::new(), issuer, signed: None })
    }

    /// Adds the roots among these that the certificate leads to.
    pub fn look_among(&mut self, chain: &[CertificateDer<'_>], roots: &Roots<Identity>) {
        // Whether it still holds is another question.
        let led = verifier::leads_to(chain, roots, self.now.min(self.until));
        for root in roots.named().into_iter().filter(|root| led.contains(&root.fingerprint)) {
            if !self.leads_to.iter().any(|known| known.fingerprint == root.fingerprint) {
                self.leads_to.push(root);
            }
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is good until {}, and here it is {}", self.until, self.now)?;
        match self.leads_to.as_slice() {
            [] => write!(f, "; it leads to no root that is known here")?,
            roots => write!(f, "; it leads to root {}", list(roots))?,
        }
        let Some(signed) = &self.signed else {
            return Ok(());
        };
        write!(f, ", and head {} trusts {}", signed.head, list(&signed.trusted))?;
        match self.issuer {
            Some(key) if !signed.mandated => write!(f, "; no mandate in that head names its issuing key {key}"),
            _ => Ok(()),
        }
    }
}

fn list(roots: &[NamedRoot]) -> String {
    roots.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
