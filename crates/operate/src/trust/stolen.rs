//! A root was stolen: a new one takes the place of all others at once, and the gateways turn to their spare keys.

use std::collections::BTreeSet;

use identity::authority::Authority;
use identity::bundle::{Domain, InDomain};
use identity::certificate::RequestedKey;
use identity::head::{Cause, Head, Mandate, Turn};
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::trust::{self, Step};
use wire::control::{Answer, Call};

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::session::desk::{Desk, DeskError};
use crate::session::error::trust::Unturned;
use crate::session::{Made, OperateError, Session};
use crate::trust::issuers::{Told, issuing_key, spare_key};
use crate::trust::step::{Turned, check_room, turned};

/// Which gateways have a spare key to turn to, and which lose their issuing until they were given a new one.
#[derive(Debug, Clone)]
pub struct Spares {
    pub ready: Vec<(NodeName, RequestedKey)>,
    pub lost: Vec<NodeName>,
}

impl Spares {
    /// A spare key counts if nobody has used it, nobody else has it, and nobody wants to do without it. A mandate that is
    /// over needs none.
    pub fn of(head: &Head, (told, without): (&Told, &BTreeSet<NodeName>), domain: Domain, now: Timestamp) -> Self {
        let used: BTreeSet<_> = head
            .mandates
            .iter()
            .flat_map(|mandate| [mandate.identity_issuer, mandate.endpoint_issuer])
            .chain(head.revocations.issuing_keys.iter().copied())
            .collect();
        let mut spares = Self { ready: Vec::new(), lost: Vec::new() };
        for mandate in head.mandates.iter().filter(|mandate| mandate.is_active(now)) {
            let told = told.get(&mandate.gateway).filter(|_| !without.contains(&mandate.gateway));
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

impl<D: Desk> Session<D> {
    /// Has a gateway draw a spare key that nobody can have copied yet; says when it was drawn. No desk: the one of this
    /// session.
    pub async fn draw_spare<E: Desk>(
        &mut self,
        (gateway, desk): (&NodeName, Option<&mut E>),
        domain: Domain,
        told: &mut Told,
    ) -> Result<Timestamp, OperateError> {
        let call = Call::Spare { domain };
        let answer = match desk {
            Some(desk) => desk.ask(call).await?,
            None => self.ask(call).await?,
        };
        let Answer::Spare { issuers, drawn_at } = answer else { return Err(DeskError::OtherAnswer.into()) };
        let body = self.open_told(&issuers).filter(|body| body.gateway == *gateway);
        let body = body.ok_or_else(|| Unturned::AnotherGateway(gateway.clone()))?;
        told.insert(gateway.clone(), body);
        Ok(drawn_at)
    }

    /// Puts a new root in the place of all others, at once and for good. Mandates move to spare keys; the old issuing keys
    /// are revoked, since whoever has the root may have those. Whoever is left out keeps a mandate with a revoked key.
    pub async fn replace_trust<T: InDomain>(
        &mut self,
        keys: &SignerKeys,
        root: &Authority<T>,
        (told, without): (&Told, &BTreeSet<NodeName>),
        waived: &[String],
    ) -> Result<Made<(Turned, Spares)>, OperateError> {
        self.check_root::<T>(root.certificate()).await?;
        let outside = match self.outside_in_use::<T>().await {
            // This is the way out if the bundle in use is nowhere any more.
            Err(OperateError::Unturned(Unturned::BundleMissing(_))) => Vec::new(),
            outside => outside?,
        };
        self.publish(keys, |session, now| {
            let head = &session.known.head.head;
            let spares = Spares::of(head, (told, without), T::DOMAIN, now);
            if spares.ready.is_empty() {
                return Err(Unturned::NoSpare.into());
            }
            let stolen = trust::active(&session.lines(), T::DOMAIN).map(|line| line.version);
            let stolen = stolen.ok_or(Unturned::Step(trust::BadStep::NothingActive(T::DOMAIN.word())))?;
            let mut body = session.draft_bundle::<T>(&root.pem(), now)?;
            body.outside.clone_from(&outside);
            for (gateway, key) in &spares.ready {
                body.issuers.push(session.certify(gateway, key, root, now)?);
            }
            let bundle = session.seal(check_room(&body)?)?;
            let lines = session.step(T::DOMAIN, Step::Replace { bundle: bundle.digest() }, now)?;
            let waived = waived.to_vec();
            let turn = Turn { domain: T::DOMAIN, version: stolen, replaces: None, grace: None, waived };
            let next = session.next_head(now, Cause::TrustRetire(turn), |head| {
                head.trust = lines;
                let old: Vec<_> = head.mandates.iter().map(|mandate| issuing_key(mandate, T::DOMAIN)).collect();
                head.revocations.issuing_keys.extend(old);
                spares.move_mandates(&mut head.mandates, T::DOMAIN);
            })?;
            let turned = turned(&body, None, next.version);
            let action = Handed::with(vec![bundle], session.seal(&next)?);
            Ok((action, (turned, spares)))
        })
        .await
    }
}
