//! A root was stolen: a new one takes the place of all others at once, and the gateways turn to their spare keys.

use std::collections::BTreeSet;

use identity::bundle::{Domain, InDomain};
use identity::certificate::{self, RequestedKey};
use identity::head::{Cause, Head, Mandate, Turn};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::trust::{self, BadStep, TrustStep};
use org::gateway::IssuersNotice;
use wire::control::ControlAnswer;

use crate::key::SignerKeys;
use crate::replica::roll::Roll;
use crate::session::{DeskError, Made, NextHead, OperateError, Result, Session, TrustError, Unsigned};
use crate::trust::issuers::{Issuing, Told, certify, issuing_key, open};
use crate::trust::lifetimes::Certifier;
use crate::trust::step::{StepOutcome, check_room, check_root, draft_bundle, step, step_outcome};
use crate::trust::versions::outside_in_use;

/// Which gateways have a spare key to turn to, and which lose their issuing until they were given a new one.
#[derive(Debug, Clone)]
pub struct Spares {
    pub ready: Vec<(NodeName, RequestedKey)>,
    pub lost: Vec<NodeName>,
}

impl Spares {
    /// A spare key counts if nobody has used it, nobody else has it, and nobody wants to do without it. A mandate that is
    /// over needs none.
    pub fn of(head: &Head, issuing: Issuing<'_>, domain: Domain, now: Timestamp) -> Self {
        let used: BTreeSet<_> = head
            .mandates
            .iter()
            .flat_map(|mandate| [mandate.identity_issuer, mandate.endpoint_issuer])
            .chain(head.revocations.issuing_keys.iter().copied())
            .collect();
        let mut spares = Self { ready: Vec::new(), lost: Vec::new() };
        for mandate in head.mandates.iter().filter(|mandate| mandate.is_active(now)) {
            let told = issuing.told.get(&mandate.gateway).filter(|_| !issuing.without.contains(&mandate.gateway));
            let key = told.and_then(|issuers| spare_key(issuers, domain));
            let fresh = |key: &RequestedKey| {
                !used.contains(&key.id) && !spares.ready.iter().any(|(_, other)| other.id == key.id)
            };
            match key.filter(fresh) {
                Some(key) => spares.ready.push((mandate.gateway.clone(), key)),
                None => spares.lost.push(mandate.gateway.clone()),
            }
        }
        spares
    }

    /// The mandates as they would be.
    pub fn move_mandates(&self, mandates: &mut [Mandate], domain: Domain) {
        for mandate in mandates {
            let Some((_, key)) = self.ready.iter().find(|(gateway, _)| *gateway == mandate.gateway) else { continue };
            match domain {
                Domain::Identity => mandate.identity_issuer = key.id,
                Domain::Endpoint => mandate.endpoint_issuer = key.id,
            }
        }
    }
}

/// The key that lies ready, which signed its own request.
fn spare_key(issuers: &IssuersNotice, domain: Domain) -> Option<RequestedKey> {
    let request = match domain {
        Domain::Identity => &issuers.spare_identity,
        Domain::Endpoint => &issuers.spare_endpoint,
    };
    certificate::read_request(&request.0).ok()
}

/// What a gateway answered that was to draw a spare key, which nobody can have copied yet; says when it was drawn.
pub(super) fn take_spare(
    session: &Session,
    gateway: &NodeName,
    answer: ControlAnswer,
    told: &mut Told,
) -> Result<Timestamp> {
    let ControlAnswer::Spare { issuers, drawn_at } = answer else { return Err(DeskError::OtherAnswer.into()) };
    let body = open(session, &issuers).filter(|body| body.gateway == *gateway);
    told.insert(gateway.clone(), body.ok_or_else(|| TrustError::AnotherGateway(gateway.clone()))?);
    Ok(drawn_at)
}

/// What the head that puts a new root there does to machines, whichever root that will be.
pub(super) fn foretold(session: &Session, domain: Domain, spares: &Spares, now: Timestamp) -> Result<Roll> {
    Ok(head(session, domain, Digest([0; 32]), spares, &[], now)?.roll)
}

fn head(
    session: &Session,
    domain: Domain,
    bundle: Digest,
    spares: &Spares,
    waived: &[String],
    now: Timestamp,
) -> Result<NextHead> {
    let stolen = trust::active(&session.lines(), domain).map(|line| line.version);
    let version = stolen.ok_or(TrustError::Step(BadStep::NothingActive(domain.word())))?;
    let lines = step(session, domain, TrustStep::Replace { bundle }, now)?;
    let turn = Turn { domain, version, replaces: None, grace: None, waived: waived.to_vec() };
    session.next_head(now, Cause::TrustRetire(turn), |head| {
        head.trust = lines;
        let old: Vec<_> = head.mandates.iter().map(|mandate| issuing_key(mandate, domain)).collect();
        head.revocations.issuing_keys.extend(old);
        spares.move_mandates(&mut head.mandates, domain);
    })
}

/// Puts a new root in the place of all others, at once and for good. Mandates move to spare keys; the old issuing keys
/// are revoked, since whoever has the root may have those. Whoever is left out keeps a mandate with a revoked key.
pub(crate) async fn replace<T: InDomain>(
    session: &mut Session,
    keys: &SignerKeys,
    under: Certifier<'_, T>,
    issuing: Issuing<'_>,
    waived: &[String],
) -> Result<Made<(StepOutcome, Spares)>> {
    check_root::<T>(session, under.root.certificate()).await?;
    let outside = match outside_in_use::<T>(session).await {
        // This is the way out if the bundle in use is nowhere any more.
        Err(OperateError::Trust(TrustError::BundleMissing(_))) => Vec::new(),
        outside => outside?,
    };
    session
        .publish(keys, |session, now| {
            let spares = Spares::of(session.head(), issuing, T::DOMAIN, now);
            if spares.ready.is_empty() {
                return Err(TrustError::NoSpare.into());
            }
            let mut body = draft_bundle::<T>(session, &under.root.pem(), now)?;
            body.outside.clone_from(&outside);
            for (gateway, key) in &spares.ready {
                body.issuers.push(certify(&session.known.founding.record.name, gateway, key, under, now)?);
            }
            let bundle = session.seal(check_room(&body)?)?;
            let next = head(session, T::DOMAIN, bundle.digest(), &spares, waived, now)?;
            let what = (step_outcome(&body, None, next.head.version), spares);
            Ok(Unsigned { objects: vec![bundle], next: Some(next), what })
        })
        .await
}
