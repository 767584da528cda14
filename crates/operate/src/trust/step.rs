//! Turns of trust: a version is published, used, taken back. Each is a signed head, and a line in the ledger.

use std::collections::BTreeSet;

use ground::clock;
use identity::authority::Authority;
use identity::bundle::{Bundle, BundleBody, Domain, Endpoint, Identity, InDomain, MAX_ISSUERS};
use identity::head::{Cause, Grace, TrustLine, Turn};
use identity::id::Fingerprint;
use identity::principal::{Host, NodeName};
use identity::time::{Seconds, Timestamp};
use identity::trust::{self, BadStep, Step};
use pki_types::CertificateDer;

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::session::desk::Desk;
use crate::session::error::trust::Unturned;
use crate::session::{Made, OperateError, Session};
use crate::trust::versions::Version;

/// What a turn made so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    pub domain: Domain,
    pub version: u64,
    /// The version whose place it takes.
    pub replaces: Option<u64>,
    /// The version that it takes back.
    pub reverts: Option<u64>,
    /// The roots of the version.
    pub roots: Fingerprint,
    pub grace: Option<Grace>,
    pub head: u64,
}

impl<D: Desk> Session<D> {
    /// Every root that was ever published, of either domain, with the line that names it.
    pub async fn published_roots(&mut self) -> Result<Vec<(TrustLine, Fingerprint)>, OperateError> {
        fn roots<T: InDomain>(version: &Version<T>) -> impl Iterator<Item = (TrustLine, Fingerprint)> {
            version.bundle.fingerprints().map(|root| (version.line.clone(), root))
        }
        let endpoint = self.all_versions::<Endpoint>().await?.here;
        let identity = self.all_versions::<Identity>().await?.here;
        Ok(endpoint.iter().flat_map(roots).chain(identity.iter().flat_map(roots)).collect())
    }

    /// A root belongs to one domain, is new, and was never stolen.
    pub async fn check_root<T: InDomain>(&mut self, root: &CertificateDer<'_>) -> Result<(), OperateError> {
        let root = Fingerprint::of_certificate(root.as_ref());
        let named: Vec<TrustLine> =
            self.published_roots().await?.into_iter().filter(|(_, it)| *it == root).map(|(line, _)| line).collect();
        if let Some(line) = named.iter().find(|line| line.domain != T::DOMAIN) {
            return Err(Unturned::OtherDomain { root, version: line.version, domain: line.domain.word() }.into());
        }
        if let Some(line) = named.iter().find(|line| line.distrusted) {
            return Err(Unturned::Distrusted { root, version: line.version }.into());
        }
        match named.first() {
            Some(line) => Err(Unturned::InUse { root, version: line.version }.into()),
            None => Ok(()),
        }
    }

    /// Nothing is staged, so that something can be: asked before a root is drawn.
    pub fn check_unstaged(&self, domain: Domain) -> Result<(), OperateError> {
        match trust::staged(&self.lines(), domain) {
            Some(staged) => Err(Unturned::Step(BadStep::AlreadyStaged(staged.version)).into()),
            None => Ok(()),
        }
    }

    /// Hands a new version out beside the one in use: a new root, and the issuing keys of all gateways certified by it.
    pub async fn publish_trust<T: InDomain>(
        &mut self,
        keys: &SignerKeys,
        root: &Authority<T>,
        without: &BTreeSet<NodeName>,
    ) -> Result<Made<Turned>, OperateError> {
        self.check_root::<T>(root.certificate()).await?;
        let (told, outside) = (self.issuers().await?, self.outside_in_use::<T>().await?);
        self.publish(keys, |session, now| {
            let mut body = session.draft_bundle::<T>(&root.pem(), now)?;
            body.issuers = session.certify_all((&told, without), root, now)?;
            body.outside.clone_from(&outside);
            let bundle = session.seal(check_room(&body)?)?;
            let lines = session.step(T::DOMAIN, Step::Publish { bundle: bundle.digest() }, now)?;
            let head = session.next_head(now, Cause::TrustPublish(turn_of(&body)), |head| head.trust = lines)?;
            let turned = turned(&body, None, head.version);
            Ok((Handed::with(vec![bundle], session.seal(&head)?), turned))
        })
        .await
    }

    /// Turns to the staged version. Nodes that have not taken it over, and gateways that it does not certify, must be named.
    pub async fn activate_trust<T: InDomain>(
        &mut self,
        keys: &SignerKeys,
        grace: Seconds,
        (anyway, without): (&BTreeSet<NodeName>, &BTreeSet<NodeName>),
    ) -> Result<Made<Turned>, OperateError> {
        let version = trust::staged(&self.lines(), T::DOMAIN).ok_or(Unturned::NothingStaged(T::DOMAIN.word()))?.version;
        let staged = self.all_versions::<T>().await?.need(version)?;
        let staged = staged.ok_or(Unturned::NothingStaged(T::DOMAIN.word()))?;
        let (published_at, stances) = (staged.bundle.body().published_at, self.stances().await?);
        stances.check_names(anyway)?;
        let adoption = stances.adoption((T::DOMAIN, version), published_at, clock::now());
        let behind: BTreeSet<NodeName> = adoption.lacking().cloned().collect();
        if !behind.is_subset(anyway) {
            return Err(Unturned::NotAdopted { version, missing: adoption.without(anyway).rest() }.into());
        }
        let told = self.issuers().await?;
        let cut = self.uncertified(&told, &staged.bundle, clock::now());
        if !cut.iter().all(|gateway| without.contains(gateway)) {
            let gateways = cut.into_iter().filter(|gateway| !without.contains(gateway)).collect();
            return Err(Unturned::Uncertified { version, gateways }.into());
        }
        let gateways = cut.iter().map(|gateway| format!("gateway {gateway}"));
        let waived: Vec<String> = behind.iter().map(ToString::to_string).chain(gateways).collect();
        self.publish(keys, |session, now| {
            let former = trust::active(&session.lines(), T::DOMAIN).map(|line| line.version);
            let lines = session.step(T::DOMAIN, Step::Activate { version, grace }, now)?;
            let grace = former.and_then(|former| grace_of(&lines, T::DOMAIN, former));
            let turn = Turn { domain: T::DOMAIN, version, replaces: former, grace, waived: waived.clone() };
            let head = session.next_head(now, Cause::TrustActivate(turn), |head| head.trust = lines)?;
            let mut turned = turned(staged.bundle.body(), grace, head.version);
            turned.replaces = former;
            Ok((Handed::of(session.seal(&head)?), turned))
        })
        .await
    }

    /// Takes the last turn back: a new version with the roots that were there before it.
    pub async fn roll_back_trust<T: InDomain>(
        &mut self,
        keys: &SignerKeys,
        grace: Seconds,
    ) -> Result<Made<Turned>, OperateError> {
        let (told, versions) = (self.issuers().await?, self.all_versions::<T>().await?);
        self.publish(keys, |session, now| {
            let lines = session.lines();
            let (bad, former) = trust::reverted(&lines, T::DOMAIN).map_err(Unturned::from)?;
            let (bad, former) = (bad.version, former.version);
            // Asked twice, the same word must not bring back what it took away.
            let reverts =
                versions.here.iter().find(|it| it.line.version == bad).and_then(|it| it.bundle.body().reverts);
            if reverts == Some(former) {
                return Err(Unturned::AlreadyBack { version: bad, reverts: former }.into());
            }
            // The version that goes may be missing; the one that comes back may not.
            let before = versions.clone().need(former)?;
            let before = before.ok_or(Unturned::Step(BadStep::NothingBefore(bad)))?;
            let mut body = session.draft_bundle::<T>(before.bundle.pem(), now)?;
            body.reverts = Some(bad);
            let roots = before.bundle.roots();
            body.issuers = session.known_under(&told, &before.bundle.body().issuers, (&roots, now));
            body.outside.clone_from(&before.bundle.body().outside);
            let bundle = session.seal(check_room(&body)?)?;
            let step = Step::Rollback { bundle: bundle.digest(), reverts: bad, grace };
            let lines = session.step(T::DOMAIN, step, now)?;
            let grace = grace_of(&lines, T::DOMAIN, bad);
            let turn = Turn { grace, ..turn_of(&body) };
            let head = session.next_head(now, Cause::TrustRollback(turn), |head| head.trust = lines)?;
            let turned = turned(&body, grace, head.version);
            Ok((Handed::with(vec![bundle], session.seal(&head)?), turned))
        })
        .await
    }

    /// The next version of a domain with these roots, in the place of the one in use.
    pub(super) fn draft_bundle<T: InDomain>(&self, roots: &str, now: Timestamp) -> Result<BundleBody, OperateError> {
        let (lines, org) = (self.lines(), &self.known.founding.record.name);
        let version = trust::next_version(&lines, T::DOMAIN);
        let replaces = trust::active(&lines, T::DOMAIN).map(|line| line.version);
        let body = Bundle::<T>::draft((version, replaces), org, self.hosts(), roots, now);
        body.map_err(|why| Unturned::NotCertified { version, why: why.to_string() }.into())
    }

    /// The names of the gateways.
    pub(super) fn hosts(&self) -> Vec<Host> {
        let hosts: BTreeSet<&Host> = self.mandates().iter().flat_map(|mandate| &mandate.hosts).collect();
        hosts.into_iter().cloned().collect()
    }

    pub(super) fn step(&self, domain: Domain, step: Step, now: Timestamp) -> Result<Vec<TrustLine>, OperateError> {
        let lines = trust::step(&self.lines(), domain, step, now);
        Ok(lines.map_err(Unturned::from)?)
    }
}

/// A bundle with more would be refused by everybody, and say nothing of why.
pub(crate) fn check_room(body: &BundleBody) -> Result<&BundleBody, Unturned> {
    match body.issuers.len() {
        many if many > MAX_ISSUERS => Err(Unturned::TooManyGateways(many)),
        _ => Ok(body),
    }
}

fn grace_of(lines: &[TrustLine], domain: Domain, version: u64) -> Option<Grace> {
    lines.iter().find(|line| line.domain == domain && line.version == version)?.grace
}

/// A version in the place of the one before it.
pub(crate) const fn turn_of(body: &BundleBody) -> Turn {
    let (version, replaces) = (body.trust_bundle_version, body.replaces_version);
    Turn { domain: body.domain, version, replaces, grace: None, waived: Vec::new() }
}

pub(crate) fn turned(body: &BundleBody, grace: Option<Grace>, head: u64) -> Turned {
    Turned {
        domain: body.domain,
        version: body.trust_bundle_version,
        replaces: body.replaces_version,
        reverts: body.reverts,
        roots: body.sha256_fingerprint,
        grace,
        head,
    }
}

#[cfg(test)]
mod tests {
    use ground::random;
    use identity::certificate::Validity;
    use identity::text::Bytes;

    use super::*;

    #[test]
    fn more_gateways_than_a_version_has_room_for_are_told() {
        let (org, now) = ("harbor".parse().unwrap(), Timestamp::from_unix(1_800_000_000));
        let life = Validity::from_now(now, Seconds::DAY);
        let root = Authority::<Endpoint>::root(&org, &random::p256().unwrap(), random::serial().unwrap(), life);
        let mut body = Bundle::<Endpoint>::draft((2, Some(1)), &org, Vec::new(), &root.unwrap().pem(), now).unwrap();
        body.issuers = vec![Bytes(vec![1]); MAX_ISSUERS];
        assert_eq!(check_room(&body), Ok(&body));
        body.issuers.push(Bytes(vec![1]));
        let why = check_room(&body).unwrap_err();
        assert_eq!(why.to_string(), "257 gateways are to be certified, and a version has room for 256");
    }
}
