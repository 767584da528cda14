//! A trust bundle: a version of the roots to be trusted, in one of two domains that no code can mix up.

use std::marker::PhantomData;

use pki_types::CertificateDer;
use pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::certificate;
use crate::envelope::{BadEnvelope, Envelope, Payload};
use crate::id::{Digest, Fingerprint, KeyId, sha256};
use crate::principal::{Host, OrgName};
use crate::signers::SignerSet;
use crate::text::Bytes;
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
    /// The version that this one takes back, by naming the roots again that were there before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts: Option<u64>,
    /// Certificates of the gateways' issuing keys under these roots, so that what a key has issued leads to every root
    /// that is trusted. Worth nothing without a mandate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<Bytes>,
    /// Only in the `endpoint` domain, and for downloads whose hash is known: never to enroll, renew or sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideRoot>,
}

/// A root of somebody else, believed for a few names and only where a hash decides in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideRoot {
    pub hosts: Vec<Host>,
    pub pem: String,
}

impl Payload for BundleBody {
    const KIND: &'static str = "bundle";
    const SCHEMA: u32 = 1;
}

/// Roots of one domain, checked: signed, of the right domain, every certificate readable, fingerprint as stated.
#[derive(Debug, Clone)]
pub struct Bundle<D: InDomain> {
    /// As it was signed: whoever keeps the roots keeps this.
    envelope: Envelope,
    body: BundleBody,
    roots: Vec<CertificateDer<'static>>,
    issuers: Vec<(KeyId, CertificateDer<'static>)>,
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
    #[error("a certificate of an issuing key in the bundle does not lead to one of its roots")]
    BadIssuer,
    #[error("an outside root must name hosts, be in the `endpoint` domain, and not be one of the bundle's own")]
    BadOutside,
}

impl<D: InDomain> Bundle<D> {
    pub fn draft(
        version: u64,
        replaces: Option<u64>,
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
            reverts: None,
            issuers: Vec::new(),
            outside: Vec::new(),
        })
    }

    pub fn open(signers: &SignerSet, envelope: &Envelope) -> Result<Self, BadBundle> {
        Self::check(envelope, signers.open(envelope)?)
    }

    fn check(envelope: &Envelope, body: BundleBody) -> Result<Self, BadBundle> {
        if body.domain != D::DOMAIN {
            return Err(BadBundle::OtherDomain { expected: D::DOMAIN.word(), found: body.domain.word() });
        }
        let roots = read_roots(&body.bundle_pem)?;
        let found = fingerprint(&roots);
        if found != body.sha256_fingerprint {
            return Err(BadBundle::OtherFingerprint { stated: body.sha256_fingerprint, found });
        }
        let issuers = read_issuers(&body, &roots)?;
        check_outside(&body, &roots)?;
        Ok(Self { envelope: envelope.clone(), body, roots, issuers, domain: PhantomData })
    }

    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// What a head calls it.
    pub fn digest(&self) -> Digest {
        self.envelope.digest()
    }

    pub const fn body(&self) -> &BundleBody {
        &self.body
    }

    pub fn pem(&self) -> &str {
        &self.body.bundle_pem
    }

    pub fn roots(&self) -> Roots<D> {
        Roots::of_all([self])
    }

    /// The certificates of one issuing key under these roots.
    pub fn issuers_of(&self, key: KeyId) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.issuers.iter().filter(move |(id, _)| *id == key).map(|(_, certificate)| certificate)
    }

    /// The fingerprint of each root.
    pub fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.roots.iter().map(|root| Fingerprint::of_certificate(root.as_ref()))
    }
}

/// The root certificates that count for one domain right now. Those of one domain cannot be given for the other's:
///
/// ```compile_fail,E0308
/// use identity::bundle::{Endpoint, Identity, Roots};
/// fn meet_gateways(_: Roots<Endpoint>) {}
/// fn mistake(members: Roots<Identity>) {
///     meet_gateways(members);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Roots<D: InDomain> {
    certificates: Vec<CertificateDer<'static>>,
    /// What each is called, in the same order.
    names: Vec<NamedRoot>,
    domain: PhantomData<D>,
}

impl<D: InDomain> Roots<D> {
    pub fn from_pem(text: &str) -> Result<Self, BadBundle> {
        Ok(Self::from_certificates(read_roots(text)?))
    }

    pub fn from_certificates(certificates: Vec<CertificateDer<'static>>) -> Self {
        let names = certificates.iter().map(|root| NamedRoot::of(None, root)).collect();
        Self { certificates, names, domain: PhantomData }
    }

    /// Each with the version of the bundle that it is from.
    pub fn numbered(all: impl IntoIterator<Item = (u64, CertificateDer<'static>)>) -> Self {
        let mut roots = Self::from_certificates(Vec::new());
        for (version, root) in all {
            if !roots.certificates.contains(&root) {
                roots.names.push(NamedRoot::of(Some(version), &root));
                roots.certificates.push(root);
            }
        }
        roots
    }

    /// As people are told of them.
    pub fn named(&self) -> Vec<NamedRoot> {
        self.names.clone()
    }

    /// Is one of these among them?
    pub fn has_any(&self, of: &[Fingerprint]) -> bool {
        self.names.iter().any(|root| of.contains(&root.fingerprint))
    }

    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// When the last of them ends.
    pub fn until(&self) -> Option<Timestamp> {
        let ends = self.certificates.iter().filter_map(|root| certificate::read(root).ok());
        ends.map(|root| root.validity.not_after).max()
    }

    /// The roots of several versions at once.
    pub fn of_all<'a>(bundles: impl IntoIterator<Item = &'a Bundle<D>>) -> Self
    where
        D: 'a,
    {
        let each =
            |bundle: &'a Bundle<D>| bundle.roots.iter().map(|root| (bundle.body.trust_bundle_version, root.clone()));
        Self::numbered(bundles.into_iter().flat_map(each))
    }
}

/// A root as people are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedRoot {
    /// Of its bundle, if that is known.
    pub version: Option<u64>,
    pub fingerprint: Fingerprint,
}

impl NamedRoot {
    fn of(version: Option<u64>, root: &CertificateDer<'_>) -> Self {
        Self { version, fingerprint: Fingerprint::of_certificate(root.as_ref()) }
    }
}

impl std::fmt::Display for NamedRoot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version {
            Some(version) => write!(f, "version {version} ({})", self.fingerprint),
            None => write!(f, "{}", self.fingerprint),
        }
    }
}

/// As many gateways, and as many outside roots, as a bundle may name.
pub const MAX_ISSUERS: usize = 256;
const MAX_OUTSIDE: usize = 16;

fn read_issuers(
    body: &BundleBody,
    roots: &[CertificateDer<'static>],
) -> Result<Vec<(KeyId, CertificateDer<'static>)>, BadBundle> {
    if body.issuers.len() > MAX_ISSUERS {
        return Err(BadBundle::BadIssuer);
    }
    let read = |der: &Bytes| {
        let certificate = CertificateDer::from(der.0.clone());
        let reading = certificate::read(&certificate).map_err(|_| BadBundle::BadIssuer)?;
        let leads = roots.iter().any(|root| certificate::is_signed_by(&certificate, root));
        if reading.is_ca && leads { Ok((reading.key, certificate)) } else { Err(BadBundle::BadIssuer) }
    };
    body.issuers.iter().map(read).collect()
}

fn check_outside(body: &BundleBody, roots: &[CertificateDer<'static>]) -> Result<(), BadBundle> {
    let fits = |outside: &OutsideRoot| {
        let certificates = read_roots(&outside.pem)?;
        let own = certificates.iter().any(|certificate| roots.contains(certificate));
        let named = !outside.hosts.is_empty() && outside.hosts.len() <= MAX_OUTSIDE;
        if named && !own && body.domain == Domain::Endpoint { Ok(()) } else { Err(BadBundle::BadOutside) }
    };
    if body.outside.len() > MAX_OUTSIDE {
        return Err(BadBundle::BadOutside);
    }
    body.outside.iter().try_for_each(fits)
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

#[cfg(test)]
mod tests;
