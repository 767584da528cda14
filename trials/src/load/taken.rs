//! Which versions of a domain's roots a simulated node has taken, which it tries, and what it tells of them.

use std::collections::BTreeSet;
use std::io::{Error, Result};

use identity::bundle::{Bundle, Identity, InDomain, Roots};
use identity::certificate;
use identity::head::Head;
use identity::id::{Digest, KeyId};
use identity::time::Timestamp;
use identity::trust;
use org::refusal::Refusal;
use org::report::DomainTold;
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::Documents;

use crate::load::caller::Caller;

#[derive(Debug, Clone)]
pub struct Taken<D: InDomain> {
    confirmed: Vec<Bundle<D>>,
    confirmed_at: Option<Timestamp>,
    /// All that the head trusts, while what is new of it is tried.
    trial: Option<Vec<Bundle<D>>>,
}

impl<D: InDomain> Taken<D> {
    /// Without a trial: there is nothing else.
    pub fn new(bundles: Vec<Bundle<D>>, now: Timestamp) -> Self {
        Self { confirmed: bundles, confirmed_at: Some(now), trial: None }
    }

    fn obeyed(&self) -> &[Bundle<D>] {
        self.trial.as_ref().unwrap_or(&self.confirmed)
    }

    /// What counts by this head, as far as it is here.
    pub fn in_force(&self, head: &Head) -> Vec<&Bundle<D>> {
        let digests: BTreeSet<Digest> = self.obeyed().iter().map(Bundle::digest).collect();
        let lines = trust::in_force(&head.trust, D::DOMAIN, &digests);
        lines.iter().filter_map(|line| self.obeyed().iter().find(|bundle| bundle.digest() == line.bundle)).collect()
    }

    pub fn roots(&self, head: &Head) -> Roots<D> {
        Roots::of_all(self.in_force(head))
    }

    pub const fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Every bundle that the head trusts, if all of them are here.
    pub fn at_hand(&self, head: &Head) -> Option<Vec<Bundle<D>>> {
        let here = |digest| self.obeyed().iter().chain(&self.confirmed).find(|bundle| bundle.digest() == digest);
        head.trusted_bundles(D::DOMAIN).map(|line| here(line.bundle).cloned()).collect()
    }

    /// What is new goes on trial; what only takes something away counts at once, and so does all if nothing was left.
    pub fn offer(&mut self, offered: Vec<Bundle<D>>, now: Timestamp) {
        let has = |bundle: &Bundle<D>| self.confirmed.iter().any(|own| own.digest() == bundle.digest());
        let (is_left, adds) = (offered.iter().any(has), !offered.iter().all(has));
        if is_left && adds {
            self.trial = Some(offered);
        } else {
            let at = if adds { Some(now) } else { self.confirmed_at };
            *self = Self { confirmed: offered, confirmed_at: at, trial: None };
        }
    }

    /// What is on trial and was not there before.
    pub fn tried(&self) -> Vec<Bundle<D>> {
        let had: BTreeSet<Digest> = self.confirmed.iter().map(Bundle::digest).collect();
        let new = self.trial.iter().flatten().filter(|bundle| !had.contains(&bundle.digest()));
        new.cloned().collect()
    }

    pub fn confirm(&mut self, now: Timestamp) {
        if let Some(bundles) = self.trial.take() {
            *self = Self::new(bundles, now);
        }
    }

    pub fn told(&self, head: &Head) -> Option<DomainTold> {
        let in_force = self.in_force(head);
        let newest = in_force.iter().map(|bundle| bundle.body()).max_by_key(|body| body.trust_bundle_version)?;
        Some(DomainTold {
            version: newest.trust_bundle_version,
            fingerprint: newest.sha256_fingerprint,
            versions: in_force.iter().map(|bundle| bundle.body().trust_bundle_version).collect(),
            trial: self.tried().iter().map(|bundle| bundle.body().trust_bundle_version).max(),
            updated_at: self.confirmed_at,
            refused: None,
        })
    }
}

impl Taken<Identity> {
    /// The roots in force under which an issuing key has a certificate.
    pub fn servable(&self, head: &Head, key: KeyId) -> Roots<Identity> {
        let mut found = Vec::new();
        for bundle in self.in_force(head) {
            let certified = |root: &_| bundle.issuers_of(key).any(|issuer| certificate::is_signed_by(issuer, root));
            found.extend(bundle.roots().certificates().iter().filter(|root| certified(*root)).cloned());
        }
        found.dedup();
        Roots::from_certificates(found)
    }
}

/// The bundles that a head trusts, each the one that it names and signed by enough.
pub async fn fetch<D: InDomain>(caller: &mut Caller, known: &Known) -> Result<Vec<Bundle<D>>> {
    let sent = documents(caller, Ask::Trust(D::DOMAIN)).await?;
    let lines = known.head.head.trusted_bundles(D::DOMAIN);
    let opened = lines.map(|line| {
        let named = sent.documents.iter().find(|envelope| envelope.digest() == line.bundle);
        named.and_then(|envelope| known.open_bundle(envelope))
    });
    opened
        .collect::<Option<_>>()
        .ok_or_else(|| Error::other("a bundle that the head names is missing or does not hold"))
}

pub async fn documents(caller: &mut Caller, ask: Ask) -> Result<Documents> {
    let answer: std::result::Result<Documents, Refusal> = caller.ask(ask, &()).await?;
    answer.map_err(Error::other)
}
