//! The steps of a version of the roots: published, used, taken back. Each is a signed head, and a line in the ledger.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::{Bundle, BundleBody, Domain, Endpoint, Identity, InDomain, MAX_ISSUERS};
use identity::head::{Cause, Grace, Head, TrustLine, Turn};
use identity::id::Fingerprint;
use identity::principal::{Host, NodeName};
use identity::time::{Seconds, Timestamp};
use identity::trust::{self, BadStep, TrustStep};
use pki_types::CertificateDer;

use crate::key::SignerKeys;
use crate::session::{Made, Result, Session, TrustError, Unsigned};
use crate::trust::adopted;
use crate::trust::issuers::{self, Issuing};
use crate::trust::lifetimes::Certifier;
use crate::trust::versions::{self, Version};

/// What a step made so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutcome {
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

/// Nodes that may be left behind by a version, and gateways that it need not certify.
#[derive(Debug, Clone, Copy)]
pub struct LeftBehind<'a> {
    pub nodes: &'a BTreeSet<NodeName>,
    pub gateways: &'a BTreeSet<NodeName>,
}

/// Every root that was ever published, of either domain, with the line that names it.
pub async fn published_roots(session: &mut Session) -> Result<Vec<(TrustLine, Fingerprint)>> {
    fn roots<T: InDomain>(version: &Version<T>) -> impl Iterator<Item = (TrustLine, Fingerprint)> {
        version.bundle.fingerprints().map(|root| (version.line.clone(), root))
    }
    let endpoint = versions::all::<Endpoint>(session).await?.here;
    let identity = versions::all::<Identity>(session).await?.here;
    Ok(endpoint.iter().flat_map(roots).chain(identity.iter().flat_map(roots)).collect())
}

/// A root belongs to one domain, is new, and was never stolen.
pub async fn check_root<T: InDomain>(session: &mut Session, root: &CertificateDer<'_>) -> Result<()> {
    let root = Fingerprint::of_certificate(root.as_ref());
    let published = published_roots(session).await?.into_iter().filter(|(_, it)| *it == root);
    let named: Vec<TrustLine> = published.map(|(line, _)| line).collect();
    if let Some(line) = named.iter().find(|line| line.domain != T::DOMAIN) {
        return Err(TrustError::OtherDomain { root, version: line.version, domain: line.domain.word() }.into());
    }
    if let Some(line) = named.iter().find(|line| line.distrusted) {
        return Err(TrustError::Distrusted { root, version: line.version }.into());
    }
    match named.first() {
        Some(line) => Err(TrustError::InUse { root, version: line.version }.into()),
        None => Ok(()),
    }
}

/// Nothing is staged, so that something can be: asked before a root is drawn.
pub fn check_unstaged(session: &Session, domain: Domain) -> Result<(), TrustError> {
    match trust::staged(&session.lines(), domain) {
        Some(staged) => Err(TrustError::Step(BadStep::AlreadyStaged(staged.version))),
        None => Ok(()),
    }
}

/// Hands a new version out beside the one in use: a new root, and the issuing keys of all gateways certified by it.
pub async fn publish<T: InDomain>(
    session: &mut Session,
    keys: &SignerKeys,
    under: Certifier<'_, T>,
    without: &BTreeSet<NodeName>,
) -> Result<Made<StepOutcome>> {
    check_root::<T>(session, under.root.certificate()).await?;
    let (told, outside) = (issuers::told(session).await?, versions::outside_in_use::<T>(session).await?);
    session
        .publish(keys, |session, now| {
            let mut body = draft_bundle::<T>(session, &under.root.pem(), now)?;
            body.issuers = Issuing { told: &told, without }.certify(session, under, now)?;
            body.outside.clone_from(&outside);
            publish_beside(session, &body, now)
        })
        .await
}

/// A version beside the one in use.
pub(super) fn publish_beside(session: &Session, body: &BundleBody, now: Timestamp) -> Result<Unsigned<StepOutcome>> {
    let bundle = session.seal(check_room(body)?)?;
    let lines = step(session, body.domain, TrustStep::Publish { bundle: bundle.digest() }, now)?;
    let next = session.next_head(now, Cause::TrustPublish(turn_of(body)), |head| head.trust = lines)?;
    let what = step_outcome(body, None, next.head.version);
    Ok(Unsigned { objects: vec![bundle], next: Some(next), what })
}

/// Turns to the staged version. Nodes that have not taken it over, and gateways that it does not certify, must be named.
pub async fn activate<T: InDomain>(
    session: &mut Session,
    keys: &SignerKeys,
    grace: Seconds,
    left: LeftBehind<'_>,
) -> Result<Made<StepOutcome>> {
    let nothing = || TrustError::NothingStaged(T::DOMAIN.word());
    let version = trust::staged(&session.lines(), T::DOMAIN).ok_or_else(nothing)?.version;
    let staged = versions::all::<T>(session).await?.need(version)?.ok_or_else(nothing)?;
    let stances = adopted::stances(session).await?;
    stances.check_names(left.nodes)?;
    let adoption = stances.adoption(T::DOMAIN, version, staged.bundle.body().published_at, clock::now());
    let behind: BTreeSet<NodeName> = adoption.lacking().cloned().collect();
    if !behind.is_subset(left.nodes) {
        return Err(TrustError::NotAdopted { version, missing: adoption.without(left.nodes).rest() }.into());
    }
    let told = issuers::told(session).await?;
    let cut = issuers::uncertified(session.head(), &told, &staged.bundle, clock::now());
    let gateways: Vec<_> = cut.iter().filter(|gateway| !left.gateways.contains(gateway)).cloned().collect();
    if !gateways.is_empty() {
        return Err(TrustError::Uncertified { version, gateways }.into());
    }
    let gateways = cut.iter().map(|gateway| format!("gateway {gateway}"));
    let waived: Vec<String> = behind.iter().map(ToString::to_string).chain(gateways).collect();
    session
        .publish(keys, |session, now| {
            let former = trust::active(&session.lines(), T::DOMAIN).map(|line| line.version);
            let lines = step(session, T::DOMAIN, TrustStep::Activate { version, grace }, now)?;
            let grace = former.and_then(|former| grace_of(&lines, T::DOMAIN, former));
            let turn = Turn { domain: T::DOMAIN, version, replaces: former, grace, waived: waived.clone() };
            let next = session.next_head(now, Cause::TrustActivate(turn), |head| head.trust = lines)?;
            let what = StepOutcome { replaces: former, ..step_outcome(staged.bundle.body(), grace, next.head.version) };
            Ok(Unsigned { objects: Vec::new(), next: Some(next), what })
        })
        .await
}

/// Takes the last turn back: a new version with the roots that were there before it.
pub async fn roll_back<T: InDomain>(
    session: &mut Session,
    keys: &SignerKeys,
    grace: Seconds,
) -> Result<Made<StepOutcome>> {
    let (told, versions) = (issuers::told(session).await?, versions::all::<T>(session).await?);
    session
        .publish(keys, |session, now| {
            let lines = session.lines();
            let (bad, former) = trust::reverted(&lines, T::DOMAIN).map_err(TrustError::from)?;
            let (bad, former) = (bad.version, former.version);
            // Asked twice, the same word must not bring back what it took away.
            let taken = versions.here.iter().find(|it| it.line.version == bad);
            if taken.and_then(|it| it.bundle.body().reverts) == Some(former) {
                return Err(TrustError::AlreadyBack { version: bad, reverts: former }.into());
            }
            // The version that goes may be missing; the one that comes back may not.
            let before = versions.clone().need(former)?;
            let before = before.ok_or(TrustError::Step(BadStep::NothingBefore(bad)))?.bundle;
            let mut body = draft_bundle::<T>(session, before.pem(), now)?;
            body.reverts = Some(bad);
            body.issuers = issuers::known_under(session.head(), &told, &before, now);
            body.outside.clone_from(&before.body().outside);
            let bundle = session.seal(check_room(&body)?)?;
            let back = TrustStep::Rollback { bundle: bundle.digest(), reverts: bad, grace };
            let lines = step(session, T::DOMAIN, back, now)?;
            let grace = grace_of(&lines, T::DOMAIN, bad);
            let turn = Turn { grace, ..turn_of(&body) };
            let next = session.next_head(now, Cause::TrustRollback(turn), |head| head.trust = lines)?;
            let what = step_outcome(&body, grace, next.head.version);
            Ok(Unsigned { objects: vec![bundle], next: Some(next), what })
        })
        .await
}

/// The next version of a domain with these roots, in the place of the one in use.
pub(super) fn draft_bundle<T: InDomain>(session: &Session, roots: &str, now: Timestamp) -> Result<BundleBody> {
    let (lines, org) = (session.lines(), &session.known.founding.record.name);
    let version = trust::next_version(&lines, T::DOMAIN);
    let replaces = trust::active(&lines, T::DOMAIN).map(|line| line.version);
    let body = Bundle::<T>::draft(version, replaces, org, hosts(session.head()), roots, now);
    body.map_err(|why| TrustError::NotCertified { version, why }.into())
}

/// The names of the gateways.
pub(super) fn hosts(head: &Head) -> Vec<Host> {
    let hosts: BTreeSet<&Host> = head.mandates.iter().flat_map(|mandate| &mandate.hosts).collect();
    hosts.into_iter().cloned().collect()
}

pub(super) fn step(
    session: &Session,
    domain: Domain,
    step: TrustStep,
    now: Timestamp,
) -> Result<Vec<TrustLine>, TrustError> {
    Ok(trust::step(&session.lines(), domain, step, now)?)
}

/// A bundle with more would be refused by everybody, and say nothing of why.
pub(super) fn check_room(body: &BundleBody) -> Result<&BundleBody, TrustError> {
    match body.issuers.len() {
        many if many > MAX_ISSUERS => Err(TrustError::TooManyGateways(many)),
        _ => Ok(body),
    }
}

fn grace_of(lines: &[TrustLine], domain: Domain, version: u64) -> Option<Grace> {
    lines.iter().find(|line| line.domain == domain && line.version == version)?.grace
}

/// A version in the place of the one before it.
const fn turn_of(body: &BundleBody) -> Turn {
    let (version, replaces) = (body.trust_bundle_version, body.replaces_version);
    Turn { domain: body.domain, version, replaces, grace: None, waived: Vec::new() }
}

pub(super) fn step_outcome(body: &BundleBody, grace: Option<Grace>, head: u64) -> StepOutcome {
    StepOutcome {
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
    use identity::authority::Authority;
    use identity::certificate::Validity;
    use identity::text::Bytes;

    use super::*;

    #[test]
    fn more_gateways_than_a_version_has_room_for_are_told() {
        let (org, now) = ("harbor".parse().unwrap(), Timestamp::from_unix(1_800_000_000));
        let life = Validity::from_now(now, Seconds::DAY);
        let root = Authority::<Endpoint>::root(&org, &random::p256().unwrap(), random::serial().unwrap(), life);
        let mut body = Bundle::<Endpoint>::draft(2, Some(1), &org, Vec::new(), &root.unwrap().pem(), now).unwrap();
        body.issuers = vec![Bytes(vec![1]); MAX_ISSUERS];
        assert_eq!(check_room(&body), Ok(&body));
        body.issuers.push(Bytes(vec![1]));
        let why = check_room(&body).unwrap_err();
        assert_eq!(why.to_string(), "257 gateways are to be certified, and a version has room for 256");
    }
}
