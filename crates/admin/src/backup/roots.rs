//! The roots in a backup: each with its key, and every root that is trusted among them.

use ground::sealed;
use identity::bundle::{Domain, Endpoint, Identity, InDomain, Roots};
use identity::certificate;
use identity::id::Fingerprint;
use identity::key::{P256Key, Sign as _};
use operate::backup::read::Kept;
use operate::trust::roots;
use org::state::State;
use serde::Serialize;

/// A file that is not what it should be.
#[derive(Debug)]
pub struct Damaged {
    pub what: String,
    pub why: &'static str,
}

/// A root whose certificate is in the operator's half.
#[derive(Debug, Clone, Serialize)]
pub struct RootTold {
    pub domain: Domain,
    pub sha256_fingerprint: Fingerprint,
    /// Its key is in it, too.
    pub key: bool,
}

/// Every root in the operator's half. A key that can be looked at must be its certificate's.
pub fn roots(kept: &Kept) -> Result<Vec<RootTold>, Damaged> {
    let mut told = Vec::new();
    for (path, pem) in kept {
        let stem = path.as_str().strip_prefix("operator/").and_then(|name| name.strip_suffix(".pem"));
        let Some((stem, domain)) = stem.and_then(|stem| Some((stem, domain_of(stem)?))) else { continue };
        let damaged = |what: &str, why: &'static str| Damaged { what: what.to_owned(), why };
        let chain = certificate::from_pem(&String::from_utf8_lossy(pem)).ok();
        let root = chain.and_then(|chain| chain.into_iter().next());
        let root = root.ok_or_else(|| damaged(path.as_str(), "it is not a certificate"))?;
        let reading = certificate::read(&root).map_err(|_| damaged(path.as_str(), "it is not a certificate"))?;
        let name = format!("operator/{stem}.key");
        let key = kept.iter().find(|(inside, _)| inside.as_str() == name).map(|(_, bytes)| bytes);
        // One under a passphrase cannot be looked into here.
        if let Some(bytes) = key.filter(|bytes| !sealed::is_protected(bytes)) {
            let purpose = roots::purpose(domain);
            let opened = sealed::open(bytes, &purpose, || Err(sealed::SealError::WrongPassphrase)).ok();
            let id = opened.and_then(|opened| P256Key::from_pkcs8(&opened).ok());
            let id = id.and_then(|key| certificate::key_id(key.public()).ok());
            if id != Some(reading.key) {
                return Err(damaged(&name, "it is not the key of the certificate beside it"));
            }
        }
        let sha256_fingerprint = Fingerprint::of_certificate(root.as_ref());
        told.push(RootTold { domain, sha256_fingerprint, key: key.is_some() });
    }
    Ok(told)
}

fn domain_of(stem: &str) -> Option<Domain> {
    [Domain::Identity, Domain::Endpoint].into_iter().find(|domain| {
        let rest = stem.strip_prefix(domain.word()).and_then(|rest| rest.strip_prefix("-root"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Whether the keys of all roots in use are there. What is in use, the ledger says; without one, each root that is there
/// must have its key.
pub fn are_whole(told: &[RootTold], state: Option<&State>) -> bool {
    let has = |domain: Domain, root: Fingerprint| {
        told.iter().any(|it| it.domain == domain && it.sha256_fingerprint == root && it.key)
    };
    let of = |domain: Domain| told.iter().any(|root| root.domain == domain);
    match state {
        Some(state) => trusted::<Identity>(state).into_iter().chain(trusted::<Endpoint>(state)).all(|(d, r)| has(d, r)),
        None => of(Domain::Identity) && of(Domain::Endpoint) && told.iter().all(|root| root.key),
    }
}

fn trusted<D: InDomain>(state: &State) -> Vec<(Domain, Fingerprint)> {
    let pems = state.trusted_bundles(D::DOMAIN).filter_map(|record| Roots::<D>::from_pem(&record.body.bundle_pem).ok());
    let roots = pems.flat_map(|roots| roots.certificates().to_vec());
    roots.map(|root| (D::DOMAIN, Fingerprint::of_certificate(root.as_ref()))).collect()
}
