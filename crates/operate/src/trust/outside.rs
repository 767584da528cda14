//! Roots of others, for a gateway behind somebody's web server: believed for its name alone, and only where a hash decides.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::{Bundle, Endpoint, Identity, InDomain, OutsideRoot};
use identity::certificate;
use identity::id::{Fingerprint, KeyId};
use identity::principal::Host;
use identity::time::Timestamp;

use crate::key::SignerKeys;
use crate::session::{Made, Result, Session, TrustError};
use crate::trust::step::{StepOutcome, draft_bundle, hosts, publish_beside};
use crate::trust::{issuers, versions};

/// What becomes of the outside roots of the version in use.
#[derive(Debug, Clone, Default)]
pub struct OutsideWish {
    /// Those that are there go.
    pub drop: bool,
    pub add: Option<OutsideRoot>,
}

impl OutsideWish {
    fn apply(&self, mut outside: Vec<OutsideRoot>) -> Vec<OutsideRoot> {
        if self.drop {
            outside.clear();
        }
        let Some(added) = &self.add else { return outside };
        if let Some(same) = outside.iter_mut().find(|known| known.pem == added.pem) {
            same.hosts.extend(added.hosts.iter().cloned());
            let hosts: BTreeSet<Host> = same.hosts.drain(..).collect();
            same.hosts.extend(hosts);
        } else {
            outside.push(added.clone());
        }
        outside
    }
}

/// Hands out a version with the own roots of the one in use, and other outside roots. No root's key is needed: the
/// certificates of the issuing keys are there already.
pub async fn publish(session: &mut Session, keys: &SignerKeys, mut wish: OutsideWish) -> Result<Made<StepOutcome>> {
    if let Some(added) = &mut wish.add {
        // Whatever else is in such a file is nobody's business.
        added.pem = certificate::to_pem(&certificate::from_pem(&added.pem).unwrap_or_default());
        check(session, added, clock::now()).await?;
    }
    let told = issuers::told(session).await?;
    let active = versions::in_use::<Endpoint>(session).await?.bundle;
    let outside = wish.apply(active.body().outside.clone());
    if outside == active.body().outside {
        return Err(TrustError::SameOutside(active.body().trust_bundle_version).into());
    }
    session
        .publish(keys, |session, now| {
            let mut body = draft_bundle::<Endpoint>(session, active.pem(), now)?;
            body.issuers = issuers::known_under(session.head(), &told, &active, now);
            body.outside.clone_from(&outside);
            publish_beside(session, &body, now)
        })
        .await
}

/// It is somebody else's, a CA's, good now, and for gateways' names alone.
async fn check(session: &mut Session, outside: &OutsideRoot, now: Timestamp) -> Result<()> {
    let known = hosts(session.head());
    if outside.hosts.is_empty() {
        return Err(TrustError::NoHost.into());
    }
    if let Some(host) = outside.hosts.iter().find(|host| !known.contains(host)) {
        return Err(TrustError::NoGatewayAt(host.clone()).into());
    }
    let certificates = certificate::from_pem(&outside.pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(TrustError::NoCertificate.into());
    }
    let own = own_keys(session).await?;
    for der in &certificates {
        let root = Fingerprint::of_certificate(der.as_ref());
        let reading = certificate::read(der).map_err(|_| TrustError::NoCertificate)?;
        if !reading.is_ca {
            return Err(TrustError::NotAnAuthority { root }.into());
        }
        if own.contains(&reading.key) {
            return Err(TrustError::OwnRoot { root }.into());
        }
        let (from, until) = (reading.validity.not_before, reading.validity.not_after);
        if now < from || now >= until {
            return Err(TrustError::NotNow { root, from, until }.into());
        }
    }
    Ok(())
}

/// The keys of every root that was ever published, in either domain, and of every gateway that issues.
async fn own_keys(session: &mut Session) -> Result<BTreeSet<KeyId>> {
    fn keys<T: InDomain>(bundle: &Bundle<T>) -> Vec<KeyId> {
        let roots = bundle.roots();
        roots.certificates().iter().filter_map(|root| Some(certificate::read(root).ok()?.key)).collect()
    }
    let endpoint = versions::all::<Endpoint>(session).await?.here;
    let identity = versions::all::<Identity>(session).await?.here;
    let endpoint = endpoint.iter().flat_map(|version| keys(&version.bundle));
    let identity = identity.iter().flat_map(|version| keys(&version.bundle));
    let mandates = session.head().mandates.iter();
    let issuing = mandates.flat_map(|mandate| [mandate.endpoint_issuer, mandate.identity_issuer]);
    Ok(endpoint.chain(identity).chain(issuing).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(pem: &str, hosts: &[&str]) -> OutsideRoot {
        OutsideRoot { pem: pem.to_owned(), hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() }
    }

    #[test]
    fn one_more_is_added_the_same_gets_more_names_and_all_can_go() {
        let known = vec![root("a", &["gw.example"])];
        let wish = |drop, add| OutsideWish { drop, add };
        let more = wish(false, Some(root("b", &["b.example"]))).apply(known.clone());
        assert_eq!(more, [root("a", &["gw.example"]), root("b", &["b.example"])]);
        let named = wish(false, Some(root("a", &["b.example", "gw.example"]))).apply(known.clone());
        assert_eq!(named, [root("a", &["b.example", "gw.example"])]);
        assert_eq!(wish(true, None).apply(known.clone()), []);
        assert_eq!(wish(true, Some(root("b", &["b.example"]))).apply(known), [root("b", &["b.example"])]);
    }
}
