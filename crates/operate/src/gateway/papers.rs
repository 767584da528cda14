//! Certificates of a gateway's issuing keys: one under each root that is trusted, and which of them it lacks.

use std::marker::PhantomData;

use identity::bundle::{Endpoint, Identity, InDomain};
use identity::certificate::{self, RequestedKey};
use identity::head::{Mandate, TrustLine, TrustState};
use identity::key::PublicKey;
use identity::principal::{Address, NodeName, OrgName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::gateway::{CheckedRequest, GatewayGrant};
use pki_types::CertificateDer;

use crate::gateway::mandate_of;
use crate::session::{OperateError, Result, Session};
use crate::trust::issuers::{self, Told, issuing_key};
use crate::trust::lifetimes::{Certifier, ISSUER_LIFE};
use crate::trust::roots::{RootError, RootKeyring};
use crate::trust::versions::{self, Version};

/// Why a gateway's keys are not certified.
#[derive(Debug, thiserror::Error)]
pub enum NotCertified {
    #[error(transparent)]
    Operate(#[from] OperateError),
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("it has no certificate under a root in use, and none can be made here")]
    NoCertificate,
}

/// A trusted version of the roots under which no certificate could be made: the root's key is not here.
#[derive(Debug)]
struct Absent {
    line: TrustLine,
    why: RootError,
}

/// A certificate with less than this left is made anew.
const SOON: Seconds = Seconds::DAY.times(90);

/// What is known of both issuing keys of one gateway.
#[derive(Debug)]
pub struct Papers {
    pub identity: Ways<Identity>,
    pub endpoint: Ways<Endpoint>,
}

/// Of one issuing key: each trusted root, the one in use first.
#[derive(Debug)]
pub struct Ways<T: InDomain> {
    /// Unknown if no certificate of it was ever seen here.
    key: Option<RequestedKey>,
    each: Vec<Way>,
    domain: PhantomData<T>,
}

#[derive(Debug)]
struct Way {
    line: TrustLine,
    root: CertificateDer<'static>,
    certificate: Option<Bytes>,
}

impl<T: InDomain> Ways<T> {
    /// Under each root of these versions that is trusted, as far as a certificate is known.
    fn of(key: Option<RequestedKey>, mut versions: Vec<Version<T>>, known: &[CertificateDer<'static>]) -> Self {
        versions.retain(|version| version.line.state.is_trusted());
        versions.sort_by_key(|version| (version.line.state != TrustState::Active, version.line.version));
        let mut each: Vec<Way> = Vec::new();
        for version in &versions {
            for root in version.bundle.roots().certificates() {
                // A version that was taken back names the same root again.
                if each.iter().all(|way| way.root != *root) {
                    let under = known.iter().find(|der| certificate::is_signed_by(der, root));
                    let certificate = under.map(|der| Bytes(der.as_ref().to_vec()));
                    each.push(Way { line: version.line.clone(), root: root.clone(), certificate });
                }
            }
        }
        Self { key, each, domain: PhantomData }
    }

    fn without(&self) -> impl Iterator<Item = &Way> {
        self.each.iter().filter(|way| self.key.is_some() && way.certificate.is_none())
    }

    /// Versions of the trusted roots under which no certificate of the key is known, if it could be made.
    fn lacking(&self) -> Vec<TrustLine> {
        self.without().map(|way| way.line.clone()).collect()
    }

    pub const fn is_known(&self) -> bool {
        self.key.is_some()
    }

    /// Makes what is lacking under those roots whose keys are here; the others.
    fn fill(
        &mut self,
        of: Certified<'_>,
        roots: &impl RootKeyring,
        now: Timestamp,
    ) -> Result<Vec<Absent>, NotCertified> {
        let Some(key) = &self.key else { return Ok(Vec::new()) };
        let mut absent = Vec::new();
        for way in self.each.iter_mut().filter(|way| way.certificate.is_none()) {
            match roots.open::<T>(&way.root) {
                Ok(root) => {
                    let by = Certifier { root: &root, life: ISSUER_LIFE };
                    way.certificate = Some(issuers::certify(of.org, of.gateway, key, by, now)?);
                }
                Err(why @ RootError::NotHere { .. }) => absent.push(Absent { line: way.line.clone(), why }),
                Err(why) => return Err(why.into()),
            }
        }
        Ok(absent)
    }

    /// The certificate under the root in use, and the others.
    fn certificates(&self) -> Option<(Bytes, Vec<Bytes>)> {
        let (first, rest) = self.each.split_first()?;
        Some((first.certificate.clone()?, rest.iter().filter_map(|way| way.certificate.clone()).collect()))
    }
}

/// Whose keys are certified.
#[derive(Clone, Copy)]
struct Certified<'a> {
    org: &'a OrgName,
    gateway: &'a NodeName,
}

impl Papers {
    /// Versions of the roots under which its keys have no certificate.
    pub fn lacking(&self) -> Vec<TrustLine> {
        [self.identity.lacking(), self.endpoint.lacking()].concat()
    }

    fn fill(
        &mut self,
        session: &Session,
        gateway: &NodeName,
        roots: &impl RootKeyring,
        now: Timestamp,
    ) -> Result<Vec<Absent>, NotCertified> {
        let of = Certified { org: &session.known.founding.record.name, gateway };
        let mut absent = self.identity.fill(of, roots, now)?;
        absent.extend(self.endpoint.fill(of, roots, now)?);
        Ok(absent)
    }

    /// Certifies a gateway's keys where that is lacking, by those roots whose keys are here.
    pub fn certify(
        &mut self,
        session: &Session,
        gateway: &NodeName,
        roots: &impl RootKeyring,
        now: Timestamp,
    ) -> Result<(), NotCertified> {
        self.fill(session, gateway, roots, now).map(drop)
    }

    /// The same for a machine that has nothing yet: the roots in use must be here. Those that are trusted, and are not.
    pub(super) fn certify_first(
        &mut self,
        session: &Session,
        gateway: &NodeName,
        roots: &impl RootKeyring,
        now: Timestamp,
    ) -> Result<Vec<TrustLine>, NotCertified> {
        let mut lines = Vec::new();
        for Absent { line, why } in self.fill(session, gateway, roots, now)? {
            if line.state == TrustState::Active {
                return Err(why.into());
            }
            lines.push(line);
        }
        Ok(lines)
    }
}

/// What a machine that asks to be a gateway lacks: everything.
pub(super) async fn requested(session: &mut Session, checked: &CheckedRequest) -> Result<Papers> {
    let (identity, endpoint) = (Some(checked.identity.clone()), Some(checked.endpoint.clone()));
    Ok(Papers {
        identity: Ways::of(identity, versions::all(session).await?.trusted()?, &[]),
        endpoint: Ways::of(endpoint, versions::all(session).await?.trusted()?, &[]),
    })
}

/// What is known of a gateway's issuing keys, by its own word and by the bundles.
pub async fn papers(session: &mut Session, gateway: &NodeName, now: Timestamp) -> Result<Papers> {
    let mandate = mandate_of(session.head(), gateway)?.clone();
    let told = issuers::told(session).await?;
    let identity = ways(&mandate, &told, versions::all(session).await?.here, now);
    Ok(Papers { identity, endpoint: ways(&mandate, &told, versions::all(session).await?.here, now) })
}

fn ways<T: InDomain>(mandate: &Mandate, told: &Told, versions: Vec<Version<T>>, now: Timestamp) -> Ways<T> {
    let bundled = versions.iter().flat_map(|version| &version.bundle.body().issuers);
    let own = told.get(&mandate.gateway).map(|issuers| issuers.certificate(T::DOMAIN));
    let its = |der: &Bytes| {
        let (der, wanted) = (CertificateDer::from(der.0.clone()), issuing_key(mandate, T::DOMAIN));
        let read = certificate::read(&der).ok().filter(|read| read.is_ca && read.key == wanted)?;
        Some((der, read.validity.not_after))
    };
    let all: Vec<_> = own.into_iter().chain(bundled).filter_map(its).collect();
    let key = all.first().and_then(|(der, _)| certificate::key_in(der).ok());
    // One that is soon over is as good as none, but says what the key is.
    let known: Vec<_> = all.into_iter().filter(|(_, until)| *until > now + SOON).map(|(der, _)| der).collect();
    Ways::of(key, versions, &known)
}

/// What a gateway takes home; none if it would have nothing under a root in use.
pub(super) fn grant(
    session: &Session,
    gateway: &NodeName,
    voice: PublicKey,
    addresses: &[Address],
    papers: &Papers,
) -> Option<GatewayGrant> {
    let known = &session.known;
    let (identity_issuer, identity_more) = papers.identity.certificates()?;
    let (endpoint_issuer, endpoint_more) = papers.endpoint.certificates()?;
    let others = session.head().mandates.iter().filter(|mandate| mandate.gateway != *gateway);
    let mut others: Vec<_> = others.flat_map(|mandate| mandate.addresses.clone()).collect();
    let own = |address: &&Address| others.contains(address) || addresses.contains(address);
    let asked: Vec<_> = session.survey.addresses.iter().filter(|address| !own(address)).cloned().collect();
    others.extend(asked);
    Some(GatewayGrant {
        freehold_grant: GatewayGrant::SCHEMA,
        org: known.founding.record.name.clone(),
        org_id: known.org(),
        gateway: gateway.clone(),
        voice,
        identity_issuer,
        endpoint_issuer,
        endpoint_root: Bytes(papers.endpoint.each.first()?.root.as_ref().to_vec()),
        identity_more,
        endpoint_more,
        founding: known.founding.envelope.clone(),
        signers: known.chain.clone(),
        addresses: addresses.to_vec(),
        others,
    })
}

/// What a gateway that is there takes home.
pub fn renewal(session: &Session, gateway: &NodeName, papers: &Papers) -> Result<GatewayGrant, NotCertified> {
    let mandate = mandate_of(session.head(), gateway)?;
    let grant = grant(session, gateway, mandate.voice, &mandate.addresses, papers);
    grant.ok_or(NotCertified::NoCertificate)
}
