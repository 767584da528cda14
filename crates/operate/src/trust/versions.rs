//! The trusted roots, as an operator sees them: every version, checked against the head.

use identity::bundle::{Bundle, BundleBody, Endpoint, InDomain, OutsideRoot, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::TrustLine;
use identity::id::Fingerprint;
use identity::principal::SignerName;
use identity::trust::{self, BadStep};

use crate::session::bundles;
use crate::session::desk::Desk;
use crate::session::error::trust::Unturned;
use crate::session::{OperateError, Session};

/// One version of the roots of a domain, and where it stands.
#[derive(Debug, Clone)]
pub struct Version<D: InDomain> {
    pub line: TrustLine,
    pub bundle: Bundle<D>,
    /// Who signed it, of the signer set that was in force.
    pub signed_by: Vec<SignerName>,
}

/// Every version of one domain that the head names, the oldest first.
#[derive(Debug, Clone)]
pub struct Versions<D: InDomain> {
    pub here: Vec<Version<D>>,
    /// Versions whose bundle the gateway did not give.
    pub missing: Vec<TrustLine>,
}

impl<D: InDomain> Versions<D> {
    /// What there is, if nothing lacks that is trusted.
    pub fn trusted(self) -> Result<Vec<Version<D>>, OperateError> {
        let missing: Vec<_> = self.missing.iter().filter(|line| line.state.is_trusted()).map(bundles::name).collect();
        if missing.is_empty() { Ok(self.here) } else { Err(Unturned::BundleMissing(missing).into()) }
    }

    /// One that is needed.
    pub fn need(self, version: u64) -> Result<Option<Version<D>>, OperateError> {
        if let Some(line) = self.missing.iter().find(|line| line.version == version) {
            return Err(Unturned::BundleMissing(vec![bundles::name(line)]).into());
        }
        Ok(self.here.into_iter().find(|it| it.line.version == version))
    }
}

impl<D: Desk> Session<D> {
    /// Every version of one domain that the head names. The gateway's word alone does not count. What is trusted no more
    /// may be read from what this home keeps; what is trusted the gateway must have.
    pub async fn all_versions<T: InDomain>(&mut self) -> Result<Versions<T>, OperateError> {
        let told = self.told_bundles().await?;
        let mut versions = Versions { here: Vec::new(), missing: Vec::new() };
        for line in trust::of(&self.lines(), T::DOMAIN) {
            let told = told.iter().find(|envelope| envelope.digest() == line.bundle).cloned();
            let kept = || self.folder.kept_bundle(line.bundle).filter(|_| !line.state.is_trusted());
            let read = told.or_else(kept).and_then(|envelope| Some((self.known.open_bundle(&envelope)?, envelope)));
            match read {
                Some((bundle, envelope)) => {
                    let signed_by = self.signed(&envelope);
                    versions.here.push(Version { line, bundle, signed_by });
                }
                None => versions.missing.push(line),
            }
        }
        Ok(versions)
    }

    /// The same, where every version that is trusted is needed.
    pub async fn versions<T: InDomain>(&mut self) -> Result<Vec<Version<T>>, OperateError> {
        self.all_versions().await?.trusted()
    }

    /// Whose signatures on a bundle hold, of the set that it counts under.
    fn signed(&self, envelope: &Envelope) -> Vec<SignerName> {
        let sets = self.known.signer_sets();
        let met = sets.iter().find(|set| set.open::<BundleBody>(envelope).is_ok());
        let names = met.map(|set| {
            let keys = envelope.signers_among(&set.quorum.keys());
            let signers = set.quorum.signers().iter().filter(|signer| keys.contains(&signer.key));
            signers.map(|signer| signer.name.clone()).collect()
        });
        names.unwrap_or_default()
    }

    /// The endpoint root that a code pins: the one in use.
    pub async fn pinned_root(&mut self) -> Result<Fingerprint, OperateError> {
        let active = trust::active(&self.lines(), Endpoint::DOMAIN).map(|line| line.version);
        let active = self.all_versions::<Endpoint>().await?.need(active.unwrap_or_default())?;
        let pinned = active.and_then(|version| version.bundle.fingerprints().next());
        Ok(pinned.unwrap_or_else(|| self.known.founding.endpoint_fingerprint()))
    }

    /// The outside roots that go on with the next version, and that lines are made with.
    pub async fn outside_in_use<T: InDomain>(&mut self) -> Result<Vec<OutsideRoot>, OperateError> {
        Ok(self.version_in_use::<T>().await?.bundle.body().outside.clone())
    }

    pub async fn version_in_use<T: InDomain>(&mut self) -> Result<Version<T>, OperateError> {
        let active = trust::active(&self.lines(), T::DOMAIN).map(|line| line.version);
        let found = self.all_versions::<T>().await?.need(active.unwrap_or_default())?;
        found.ok_or_else(|| Unturned::Step(BadStep::NothingActive(T::DOMAIN.word())).into())
    }

    /// All endpoint roots that are trusted now: with these, a download goes on through a rotation.
    pub async fn endpoint_roots_pem(&mut self) -> Result<String, OperateError> {
        self.version_in_use::<Endpoint>().await?;
        let versions = self.all_versions::<Endpoint>().await?.here;
        let trusted = versions.iter().filter(|version| version.line.state.is_trusted()).map(|version| &version.bundle);
        Ok(certificate::to_pem(Roots::of_all(trusted).certificates()))
    }
}
