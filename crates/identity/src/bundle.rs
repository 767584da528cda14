//! A version of the roots to be trusted, in one of two domains that no code can mix up.

use std::marker::PhantomData;

use pki_types::CertificateDer;
use pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::envelope::{BadEnvelope, Envelope, Payload};
use crate::id::{Fingerprint, sha256};
use crate::principal::{Host, OrgName};
use crate::signers::SignerSet;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// Who may be our HTTPS gateway.
    Endpoint,
    /// Who may be a member.
    Identity,
}

impl Domain {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Identity => "identity",
        }
    }
}

/// Marks a type as belonging to one domain.
pub trait InDomain: Clone + std::fmt::Debug {
    const DOMAIN: Domain;
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity;
impl InDomain for Endpoint {
    const DOMAIN: Domain = Domain::Endpoint;
}
impl InDomain for Identity {
    const DOMAIN: Domain = Domain::Identity;
}

/// The signed words of a bundle, before its domain is known to fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleBody {
    pub trust_bundle_version: u64,
    pub environment_name: OrgName,
    pub environment_domain: Vec<Host>,
    pub domain: Domain,
    pub bundle_pem: String,
    pub sha256_fingerprint: Fingerprint,
    pub published_at: Timestamp,
    pub replaces_version: Option<u64>,
}

impl Payload for BundleBody {
    const KIND: &'static str = "bundle";
    const SCHEMA: u32 = 1;
}

/// Roots of one domain, checked: signed, of the right domain, every certificate readable, fingerprint as stated.
#[derive(Debug, Clone)]
pub struct Bundle<D: InDomain> {
    body: BundleBody,
    roots: Vec<CertificateDer<'static>>,
    domain: PhantomData<D>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBundle {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("a bundle of the `{found}` domain was given where the `{expected}` domain is needed")]
    OtherDomain { expected: &'static str, found: &'static str },
    #[error("the bundle's certificates cannot be read")]
    Unreadable,
    #[error("the bundle's fingerprint is {stated}, but its certificates have {found}")]
    OtherFingerprint { stated: Fingerprint, found: Fingerprint },
}

impl<D: InDomain> Bundle<D> {
    pub fn draft(
        (version, replaces): (u64, Option<u64>),
        org: &OrgName,
        hosts: Vec<Host>,
        roots_pem: &str,
        published_at: Timestamp,
    ) -> Result<BundleBody, BadBundle> {
        let roots = read_roots(roots_pem)?;
        Ok(BundleBody {
            trust_bundle_version: version,
            environment_name: org.clone(),
            environment_domain: hosts,
            domain: D::DOMAIN,
            bundle_pem: roots_pem.to_owned(),
            sha256_fingerprint: fingerprint(&roots),
            published_at,
            replaces_version: replaces,
        })
    }

    pub fn open(signers: &SignerSet, envelope: &Envelope) -> Result<Self, BadBundle> {
        Self::check(signers.open(envelope)?)
    }

    fn check(body: BundleBody) -> Result<Self, BadBundle> {
        if body.domain != D::DOMAIN {
            return Err(BadBundle::OtherDomain { expected: D::DOMAIN.word(), found: body.domain.word() });
        }
        let roots = read_roots(&body.bundle_pem)?;
        let found = fingerprint(&roots);
        if found != body.sha256_fingerprint {
            return Err(BadBundle::OtherFingerprint { stated: body.sha256_fingerprint, found });
        }
        Ok(Self { body, roots, domain: PhantomData })
    }

    pub const fn body(&self) -> &BundleBody {
        &self.body
    }

    pub fn pem(&self) -> &str {
        &self.body.bundle_pem
    }

    pub fn roots(&self) -> Roots<D> {
        Roots { certificates: self.roots.clone(), domain: PhantomData }
    }
}

/// The root certificates that count for one domain right now.
#[derive(Debug, Clone)]
pub struct Roots<D: InDomain> {
    certificates: Vec<CertificateDer<'static>>,
    domain: PhantomData<D>,
}

impl<D: InDomain> Roots<D> {
    pub fn from_pem(text: &str) -> Result<Self, BadBundle> {
        Ok(Self { certificates: read_roots(text)?, domain: PhantomData })
    }

    pub fn from_certificates(certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { certificates, domain: PhantomData }
    }

    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}

fn read_roots(text: &str) -> Result<Vec<CertificateDer<'static>>, BadBundle> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match roots {
        Ok(roots) if !roots.is_empty() && roots.len() <= 16 => Ok(roots),
        _ => Err(BadBundle::Unreadable),
    }
}

/// Over all certificates in order; for a single root it is the root's own fingerprint.
fn fingerprint(roots: &[CertificateDer<'_>]) -> Fingerprint {
    Fingerprint(sha256(&roots.iter().flat_map(|root| root.as_ref().to_vec()).collect::<Vec<u8>>()))
}
