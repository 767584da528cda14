//! Which keys the gateways issue with, by their own word, and certificates for those keys under another root.

use std::collections::{BTreeMap, BTreeSet};

use ground::{clock, random};
use identity::bundle::{Bundle, Domain, InDomain};
use identity::certificate::{self, RequestedKey};
use identity::envelope::Envelope;
use identity::head::{Head, Mandate};
use identity::id::KeyId;
use identity::principal::{NodeName, OrgName};
use identity::text::Bytes;
use identity::time::Timestamp;
use org::gateway::IssuersNotice;
use pki_types::CertificateDer;
use wire::control::{Call, ControlAnswer};

use crate::session::{DeskError, OperateError, Result, Session, TrustError, Unwise};
use crate::trust::lifetimes::Certifier;
use crate::trust::versions;

/// What each gateway said last.
pub type Told = BTreeMap<NodeName, IssuersNotice>;

/// What gateways said of their issuing keys, and those that are done without.
#[derive(Debug, Clone, Copy)]
pub struct Issuing<'a> {
    pub told: &'a Told,
    pub without: &'a BTreeSet<NodeName>,
}

/// What the gateways say of their issuing keys. Only what the voice of a mandate signed counts.
pub(crate) async fn told(session: &mut Session) -> Result<Told> {
    let ControlAnswer::Issuers { issuers } = session.ask(Call::Issuers {}).await? else {
        return Err(DeskError::OtherAnswer.into());
    };
    let mut told = Told::new();
    for body in issuers.iter().filter_map(|envelope| open(session, envelope)) {
        if told.get(&body.gateway).is_none_or(|known| known.at < body.at) {
            told.insert(body.gateway.clone(), body);
        }
    }
    Ok(told)
}

/// A gateway's word of itself, in the voice of its mandate.
pub(super) fn open(session: &Session, envelope: &Envelope) -> Option<IssuersNotice> {
    session.head().mandates.iter().find_map(|mandate| {
        let body: IssuersNotice = envelope.open_signed_by(Some(session.known.org()), &[mandate.voice]).ok()?;
        (body.gateway == mandate.gateway).then_some(body)
    })
}

impl Issuing<'_> {
    /// Certificates of all issuing keys that mandates in force name, under a root. The keys stay what they are.
    pub(super) fn certify<T: InDomain>(
        self,
        session: &Session,
        under: Certifier<'_, T>,
        now: Timestamp,
    ) -> Result<Vec<Bytes>> {
        self.check_without(session.head(), T::DOMAIN, now)?;
        let (mut made, mut unknown) = (Vec::new(), Vec::new());
        let active = session.head().mandates.iter().filter(|mandate| mandate.is_active(now));
        for mandate in active.filter(|mandate| !self.without.contains(&mandate.gateway)) {
            match self.told.get(&mandate.gateway) {
                Some(issuers) => {
                    let key = mandated_key(mandate, issuers, T::DOMAIN);
                    let key = key.ok_or_else(|| TrustError::OtherIssuer(mandate.gateway.clone()))?;
                    made.push(certify(&session.known.founding.record.name, &mandate.gateway, &key, under, now)?);
                }
                None => unknown.push(mandate.gateway.clone()),
            }
        }
        if unknown.is_empty() { Ok(made) } else { Err(TrustError::UnknownIssuers(unknown).into()) }
    }

    /// Only a gateway that cannot be certified is left out: any other would serve nobody under the new root, and nobody
    /// would have meant that.
    fn check_without(self, head: &Head, domain: Domain, now: Timestamp) -> Result<(), TrustError> {
        for name in self.without {
            let mandate = head.active_mandate(name, now).ok_or_else(|| TrustError::NoGateway(name.clone()))?;
            if self.told.get(name).and_then(|issuers| mandated_key(mandate, issuers, domain)).is_some() {
                return Err(TrustError::KeysKnown(name.clone()));
            }
        }
        Ok(())
    }
}

/// Asked before a root is drawn.
pub async fn check_without(session: &mut Session, without: &BTreeSet<NodeName>, domain: Domain) -> Result<()> {
    if without.is_empty() {
        return Ok(());
    }
    let told = told(session).await?;
    Ok(Issuing { told: &told, without }.check_without(session.head(), domain, clock::now())?)
}

pub(crate) fn certify<T: InDomain>(
    org: &OrgName,
    gateway: &NodeName,
    key: &RequestedKey,
    under: Certifier<'_, T>,
    now: Timestamp,
) -> Result<Bytes> {
    let made = under.root.certify_request(org, gateway, key, random::serial()?, under.validity(now));
    Ok(Bytes(made.map_err(Unwise::NotCertified)?.as_ref().to_vec()))
}

/// Certificates that are there already and lead to the roots of a bundle: what a rollback needs, without any root's key. Of
/// each key the one that lasts longest.
pub(super) fn known_under<T: InDomain>(head: &Head, told: &Told, bundle: &Bundle<T>, now: Timestamp) -> Vec<Bytes> {
    let under = under(told, bundle);
    let live = |key: KeyId| under.get(&key).filter(|(until, _)| now < *until);
    let mandates = head.mandates.iter();
    let named: BTreeSet<KeyId> = mandates.map(|mandate| issuing_key(mandate, T::DOMAIN)).collect();
    named.into_iter().filter_map(live).map(|(_, der)| der.clone()).collect()
}

/// Gateways in force whose issuing key has no certificate under these roots, as far as the bundle and they say.
pub(super) fn uncertified<T: InDomain>(head: &Head, told: &Told, bundle: &Bundle<T>, now: Timestamp) -> Vec<NodeName> {
    let under = under(told, bundle);
    let lacks = |mandate: &&Mandate| {
        let found = under.get(&issuing_key(mandate, T::DOMAIN));
        mandate.is_active(now) && found.is_none_or(|(until, _)| *until <= now)
    };
    head.mandates.iter().filter(lacks).map(|mandate| mandate.gateway.clone()).collect()
}

/// Until when each gateway's issuing key leads to the roots in use, as far as that is known.
pub(crate) async fn issuing_until<T: InDomain>(
    session: &mut Session,
    told: &Told,
) -> Result<BTreeMap<NodeName, Timestamp>> {
    let active = match versions::in_use::<T>(session).await {
        // That is told as such; here it is unknown.
        Err(OperateError::Trust(_)) => return Ok(BTreeMap::new()),
        active => active?.bundle,
    };
    let under = under(told, &active);
    let until = |mandate: &Mandate| {
        let (until, _) = under.get(&issuing_key(mandate, T::DOMAIN))?;
        Some((mandate.gateway.clone(), *until))
    };
    Ok(session.head().mandates.iter().filter_map(until).collect())
}

/// Of each key that has some, the certificate under the roots of a bundle that lasts longest.
fn under<T: InDomain>(told: &Told, bundle: &Bundle<T>) -> BTreeMap<KeyId, (Timestamp, Bytes)> {
    let (roots, current) = (bundle.roots(), told.values().map(|issuers| issuers.certificate(T::DOMAIN)));
    let mut under: BTreeMap<KeyId, (Timestamp, Bytes)> = BTreeMap::new();
    for der in bundle.body().issuers.iter().chain(current) {
        let certificate = CertificateDer::from(der.0.as_slice());
        let Ok(reading) = certificate::read(&certificate) else { continue };
        let leads = || roots.certificates().iter().any(|root| certificate::is_signed_by(&certificate, root));
        let until = reading.validity.not_after;
        let longer = under.get(&reading.key).is_none_or(|(known, _)| *known < until);
        if reading.is_ca && longer && leads() {
            under.insert(reading.key, (until, der.clone()));
        }
    }
    under
}

/// Which issuing key a mandate names.
pub(crate) const fn issuing_key(mandate: &Mandate, domain: Domain) -> KeyId {
    match domain {
        Domain::Identity => mandate.identity_issuer,
        Domain::Endpoint => mandate.endpoint_issuer,
    }
}

/// The key that a mandate names, if its gateway tells of that one.
fn mandated_key(mandate: &Mandate, issuers: &IssuersNotice, domain: Domain) -> Option<RequestedKey> {
    let told = certificate::key_in(&CertificateDer::from(issuers.certificate(domain).0.as_slice())).ok();
    told.filter(|key| key.id == issuing_key(mandate, domain))
}
