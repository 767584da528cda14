//! Certificates of a gateway's issuing keys: one under each root that is trusted, and which of them it lacks.

use identity::authority::Authority;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::certificate::{self, RequestedKey};
use identity::head::{Mandate, TrustState};
use identity::principal::{NodeName, OrgName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::gateway::GatewayGrant;
use pki_types::CertificateDer;

use crate::gateway::{bare_grant, mandate_of};
use crate::session::desk::Desk;
use crate::session::{OperateError, Session};
use crate::trust::issuers::{self, Told, issuing_key};
use crate::trust::versions;

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
    domain: std::marker::PhantomData<T>,
}

#[derive(Debug)]
struct Way {
    version: u64,
    root: CertificateDer<'static>,
    certificate: Option<Bytes>,
}

impl<T: InDomain> Ways<T> {
    /// Trusted roots under which no certificate of the key is known, if it could be made.
    pub fn lacks(&self) -> Vec<CertificateDer<'static>> {
        if self.key.is_none() {
            return Vec::new();
        }
        self.each.iter().filter(|way| way.certificate.is_none()).map(|way| way.root.clone()).collect()
    }

    /// The versions of those.
    pub fn lacking(&self) -> Vec<String> {
        let lacks = self.each.iter().filter(|way| self.key.is_some() && way.certificate.is_none());
        lacks.map(|way| format!("{} {}", T::DOMAIN.word(), way.version)).collect()
    }

    pub const fn is_known(&self) -> bool {
        self.key.is_some()
    }

    /// Makes what is lacking under these roots.
    pub fn fill(
        &mut self,
        org: &OrgName,
        gateway: &NodeName,
        roots: &[Authority<T>],
        now: Timestamp,
    ) -> Result<(), OperateError> {
        let Some(key) = &self.key else { return Ok(()) };
        for way in self.each.iter_mut().filter(|way| way.certificate.is_none()) {
            if let Some(root) = roots.iter().find(|root| *root.certificate() == way.root) {
                way.certificate = Some(issuers::certify(org, gateway, key, root, now)?);
            }
        }
        Ok(())
    }

    /// The certificate under the root in use, and the others.
    fn certificates(&self) -> Option<(Bytes, Vec<Bytes>)> {
        let (first, rest) = self.each.split_first()?;
        let first = first.certificate.clone()?;
        Some((first, rest.iter().filter_map(|way| way.certificate.clone()).collect()))
    }
}

/// What is known of a gateway's issuing keys, by its own word and by the bundles.
pub async fn papers(
    session: &mut Session<impl Desk>,
    gateway: &NodeName,
    now: Timestamp,
) -> Result<Papers, OperateError> {
    let mandate = mandate_of(&session.known, gateway)?.clone();
    let told = issuers::told(session).await?;
    Ok(Papers {
        identity: ways(session, &mandate, &told, now).await?,
        endpoint: ways(session, &mandate, &told, now).await?,
    })
}

async fn ways<T: InDomain>(
    session: &mut Session<impl Desk>,
    mandate: &Mandate,
    told: &Told,
    now: Timestamp,
) -> Result<Ways<T>, OperateError> {
    let mut versions = versions::all::<T>(session).await?.here;
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
    let known: Vec<_> = all.iter().filter(|(_, until)| *until > now + SOON).map(|(der, _)| der).collect();
    versions.retain(|version| version.line.state.is_trusted());
    versions.sort_by_key(|version| (version.line.state != TrustState::Active, version.line.version));
    let mut each: Vec<Way> = Vec::new();
    for version in &versions {
        for root in version.bundle.roots().certificates() {
            if each.iter().any(|way| way.root == *root) {
                continue;
            }
            let under = known.iter().find(|der| certificate::is_signed_by(der, root));
            let certificate = under.map(|der| Bytes(der.as_ref().to_vec()));
            each.push(Way { version: version.line.version, root: root.clone(), certificate });
        }
    }
    Ok(Ways { key, each, domain: std::marker::PhantomData })
}

/// What the gateway takes home; none if it would have nothing under a root in use.
pub fn renewal(
    session: &Session<impl Desk>,
    gateway: &NodeName,
    papers: &Papers,
) -> Result<Option<GatewayGrant>, OperateError> {
    let mandate = mandate_of(&session.known, gateway)?;
    let both = papers.identity.certificates().zip(papers.endpoint.certificates());
    let Some((identity, endpoint)) = both else { return Ok(None) };
    let Some(root) = papers.endpoint.each.first() else { return Ok(None) };
    let mut grant = bare_grant(session, &mandate.gateway, mandate.voice, mandate.addresses.clone());
    (grant.identity_issuer, grant.identity_more) = identity;
    (grant.endpoint_issuer, grant.endpoint_more) = endpoint;
    grant.endpoint_root = Bytes(root.root.as_ref().to_vec());
    Ok(Some(grant))
}
