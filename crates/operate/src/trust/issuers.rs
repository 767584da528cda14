//! Which keys the gateways issue with, by their own word, and certificates for those keys under another root.

use std::collections::{BTreeMap, BTreeSet};

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::{Bundle, Domain, InDomain, Roots};
use identity::certificate::{self, BadCertificate, RequestedKey, Validity};
use identity::envelope::Envelope;
use identity::head::Mandate;
use identity::id::KeyId;
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::Timestamp;
use org::gateway::Issuers;
use pki_types::CertificateDer;
use wire::control::{Answer, Call};

use crate::gateway::ISSUER_LIFE;
use crate::session::desk::{Desk, DeskError};
use crate::session::error::trust::Unturned;
use crate::session::{OperateError, Session};

/// What each gateway said last.
pub type Told = BTreeMap<NodeName, Issuers>;

impl<D: Desk> Session<D> {
    /// What the gateways say of their issuing keys. Only what the voice of a mandate signed counts.
    pub async fn issuers(&mut self) -> Result<Told, OperateError> {
        let Answer::Issuers { issuers } = self.ask(Call::Issuers {}).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        let mut told = Told::new();
        for body in issuers.iter().filter_map(|envelope| self.open_told(envelope)) {
            if told.get(&body.gateway).is_none_or(|known| known.at < body.at) {
                told.insert(body.gateway.clone(), body);
            }
        }
        Ok(told)
    }

    /// A gateway's word of itself, in the voice of its mandate.
    pub(crate) fn open_told(&self, envelope: &Envelope) -> Option<Issuers> {
        let opened = |mandate: &Mandate| {
            let body: Issuers = envelope.open_signed_by(Some(self.known.org()), &[mandate.voice]).ok()?;
            (body.gateway == mandate.gateway).then_some(body)
        };
        self.mandates().iter().find_map(opened)
    }

    /// Certificates of all issuing keys that mandates in force name, under a root. The keys stay what they are.
    pub(crate) fn certify_all<T: InDomain>(
        &self,
        (told, without): (&Told, &BTreeSet<NodeName>),
        root: &Authority<T>,
        now: Timestamp,
    ) -> Result<Vec<Bytes>, OperateError> {
        self.check_left_aside((told, without), T::DOMAIN, now)?;
        let (mut made, mut unknown) = (Vec::new(), Vec::new());
        let active = self.mandates().iter().filter(|mandate| mandate.is_active(now));
        for mandate in active.filter(|mandate| !without.contains(&mandate.gateway)) {
            match told.get(&mandate.gateway) {
                Some(issuers) => {
                    let key = mandated_key(mandate, issuers, T::DOMAIN);
                    let key = key.ok_or_else(|| Unturned::OtherIssuer(mandate.gateway.clone()))?;
                    made.push(self.certify(&mandate.gateway, &key, root, now)?);
                }
                None => unknown.push(mandate.gateway.clone()),
            }
        }
        if unknown.is_empty() { Ok(made) } else { Err(Unturned::UnknownIssuers(unknown).into()) }
    }

    /// Asked before a root is drawn.
    pub async fn check_without(&mut self, without: &BTreeSet<NodeName>, domain: Domain) -> Result<(), OperateError> {
        if without.is_empty() {
            return Ok(());
        }
        let told = self.issuers().await?;
        self.check_left_aside((&told, without), domain, clock::now())
    }

    /// Only a gateway that cannot be certified is left out: any other would serve nobody under the new root, and nobody
    /// would have meant that.
    fn check_left_aside(
        &self,
        (told, without): (&Told, &BTreeSet<NodeName>),
        domain: Domain,
        now: Timestamp,
    ) -> Result<(), OperateError> {
        for name in without {
            let mandate = self.mandates().iter().find(|mandate| mandate.gateway == *name && mandate.is_active(now));
            let mandate = mandate.ok_or_else(|| Unturned::NoGateway(name.clone()))?;
            if told.get(name).and_then(|issuers| mandated_key(mandate, issuers, domain)).is_some() {
                return Err(Unturned::KeysKnown(name.clone()).into());
            }
        }
        Ok(())
    }

    pub(crate) fn certify<T: InDomain>(
        &self,
        gateway: &NodeName,
        key: &RequestedKey,
        root: &Authority<T>,
        now: Timestamp,
    ) -> Result<Bytes, OperateError> {
        let org = &self.known.founding.record.name;
        let life = Validity::from_now(now, ISSUER_LIFE);
        let made = root.certify_request((org, gateway), key, random::serial()?, life);
        made.map(|made| Bytes(made.as_ref().to_vec())).map_err(|why| OperateError::Unwise(why.to_string()))
    }

    /// Certificates that are there already and lead to these roots: what a rollback needs, without any root's key. Of each
    /// key the one that lasts longest.
    pub(crate) fn known_under<T: InDomain>(
        &self,
        told: &Told,
        bundled: &[Bytes],
        (roots, now): (&Roots<T>, Timestamp),
    ) -> Vec<Bytes> {
        let under = under(told, bundled, roots);
        let live = |key: KeyId| under.get(&key).filter(|(until, _)| now < *until);
        let mandated: BTreeSet<KeyId> = self.mandates().iter().map(|mandate| issuing_key(mandate, T::DOMAIN)).collect();
        mandated.into_iter().filter_map(live).map(|(_, der)| der.clone()).collect()
    }

    /// Gateways in force whose issuing key has no certificate under these roots, as far as the bundle and they say.
    pub(crate) fn uncertified<T: InDomain>(&self, told: &Told, bundle: &Bundle<T>, now: Timestamp) -> Vec<NodeName> {
        let under = under(told, &bundle.body().issuers, &bundle.roots());
        let lacks = |mandate: &&Mandate| {
            let found = under.get(&issuing_key(mandate, T::DOMAIN));
            mandate.is_active(now) && found.is_none_or(|(until, _)| *until <= now)
        };
        self.mandates().iter().filter(lacks).map(|mandate| mandate.gateway.clone()).collect()
    }

    /// Until when each gateway's issuing key leads to the roots in use, as far as that is known.
    pub async fn issuing_until<T: InDomain>(
        &mut self,
        told: &Told,
    ) -> Result<BTreeMap<NodeName, Timestamp>, OperateError> {
        let active = match self.version_in_use::<T>().await {
            // That is told as such; here it is unknown.
            Err(OperateError::Unturned(_)) => return Ok(BTreeMap::new()),
            active => active?.bundle,
        };
        let under = under(told, &active.body().issuers, &active.roots());
        let until = |mandate: &Mandate| {
            let (until, _) = under.get(&issuing_key(mandate, T::DOMAIN))?;
            Some((mandate.gateway.clone(), *until))
        };
        Ok(self.mandates().iter().filter_map(until).collect())
    }
}

/// Of each key that has some, the certificate under these roots that lasts longest.
fn under<T: InDomain>(told: &Told, bundled: &[Bytes], roots: &Roots<T>) -> BTreeMap<KeyId, (Timestamp, Bytes)> {
    let current = told.values().map(|issuers| issuers.certificate(T::DOMAIN));
    let mut under: BTreeMap<KeyId, (Timestamp, Bytes)> = BTreeMap::new();
    for der in bundled.iter().chain(current) {
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
pub const fn issuing_key(mandate: &Mandate, domain: Domain) -> KeyId {
    match domain {
        Domain::Identity => mandate.identity_issuer,
        Domain::Endpoint => mandate.endpoint_issuer,
    }
}

/// The key that a mandate names, if its gateway tells of that one.
fn mandated_key(mandate: &Mandate, issuers: &Issuers, domain: Domain) -> Option<RequestedKey> {
    key_told(issuers, domain).ok().filter(|key| key.id == issuing_key(mandate, domain))
}

fn key_told(issuers: &Issuers, domain: Domain) -> Result<RequestedKey, BadCertificate> {
    certificate::key_in(&CertificateDer::from(issuers.certificate(domain).0.as_slice()))
}

/// The key that lies ready, which signed its own request.
pub fn spare_key(issuers: &Issuers, domain: Domain) -> Option<RequestedKey> {
    let request = match domain {
        Domain::Identity => &issuers.spare_identity,
        Domain::Endpoint => &issuers.spare_endpoint,
    };
    certificate::read_request(&request.0).ok()
}
