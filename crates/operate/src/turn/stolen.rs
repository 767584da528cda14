//! A root was stolen: a new one takes the place of all others at once, and the gateways turn to their spare keys.

use std::collections::BTreeSet;

use identity::authority::Authority;
use identity::bundle::{Domain, InDomain};
use identity::certificate::RequestedKey;
use identity::head::{Head, Mandate};
use identity::principal::NodeName;
use identity::trust::{self, Step};
use org::entry::{Action, Turn};

use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};
use crate::turn::issuers::{Told, issuing_key, spare_key};
use crate::turn::{Turned, turned};
use crate::unturned::Unturned;

/// Which gateways have a spare key to turn to, and which lose their issuing until they were given a new one.
#[derive(Debug, Clone)]
pub struct Spares {
    pub ready: Vec<(NodeName, RequestedKey)>,
    pub lost: Vec<NodeName>,
}

impl Spares {
    /// A spare key counts if nobody has used it, and nobody else has it.
    pub fn of(head: &Head, told: &Told, domain: Domain) -> Self {
        let used: BTreeSet<_> = head
            .mandates
            .iter()
            .flat_map(|mandate| [mandate.identity_issuer, mandate.endpoint_issuer])
            .chain(head.revocations.issuing_keys.iter().copied())
            .collect();
        let mut spares = Self { ready: Vec::new(), lost: Vec::new() };
        for mandate in &head.mandates {
            let key = told.get(&mandate.gateway).and_then(|issuers| spare_key(issuers, domain));
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
    /// Puts a new root in the place of all others, at once and for good. Mandates move to spare keys; the old issuing keys
    /// are revoked, since whoever has the root may have those.
    pub async fn replace_trust<T: InDomain>(
        &mut self,
        keys: &SignerKeys,
        root: &Authority<T>,
        waived: &[String],
    ) -> Result<Made<(Turned, Spares)>, OperateError> {
        self.check_root::<T>(root.certificate()).await?;
        let told = self.issuers().await?;
        let outside = match self.outside_in_use::<T>().await {
            // This is the way out if the bundle in use is nowhere any more.
            Err(OperateError::Unturned(Unturned::BundleMissing(_))) => Vec::new(),
            outside => outside?,
        };
        self.publish(keys, |session, now| {
            let head = &session.known.head.head;
            let spares = Spares::of(head, &told, T::DOMAIN);
            if spares.ready.is_empty() {
                return Err(Unturned::NoSpare.into());
            }
            let stolen = trust::active(&head.trust, T::DOMAIN).map(|line| line.version);
            let stolen = stolen.ok_or(Unturned::Step(trust::BadStep::NothingActive(T::DOMAIN.word())))?;
            let mut body = session.draft_bundle::<T>(&root.pem(), now)?;
            body.outside.clone_from(&outside);
            for (gateway, key) in &spares.ready {
                body.issuers.push(session.certify(gateway, key, root, now)?);
            }
            let bundle = session.seal(&body)?;
            let lines = session.step(T::DOMAIN, Step::Replace { bundle: bundle.digest() }, now)?;
            let next = session.next_head(now, |head| {
                head.trust = lines;
                let old: Vec<_> = head.mandates.iter().map(|mandate| issuing_key(mandate, T::DOMAIN)).collect();
                head.revocations.issuing_keys.extend(old);
                spares.move_mandates(&mut head.mandates, T::DOMAIN);
            });
            let waived = waived.to_vec();
            let turn = Turn { domain: T::DOMAIN, version: stolen, replaces: None, grace: None, waived };
            let turned = turned(&body, None, next.version);
            let action = Action::TrustRetire { bundle: Some(bundle), head: session.seal(&next)?, turn };
            Ok((action, (turned, spares)))
        })
        .await
    }
}
