//! The trusted roots, as an operator sees them: every version, checked against the head.

use identity::bundle::{Bundle, BundleBody, Endpoint, InDomain, OutsideRoot, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::TrustLine;
use identity::id::Fingerprint;
use identity::principal::SignerName;
use identity::trust::{self, BadStep};
use wire::control::{Answer, Call};

use crate::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};
use crate::unturned::Unturned;

/// One version of the roots of a domain, and where it stands.
#[derive(Debug, Clone)]
pub struct Version<D: InDomain> {
    pub line: TrustLine,
    pub bundle: Bundle<D>,
    /// Who signed it, of the signer set that was in force.
    pub signed_by: Vec<SignerName>,
}

impl<D: Desk> Session<D> {
    /// Every version of one domain that the head names, the oldest first. The gateway's word alone does not count.
    pub async fn versions<T: InDomain>(&mut self) -> Result<Vec<Version<T>>, OperateError> {
        let Answer::Bundles { bundles } = self.ask(Call::Bundles {}).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        let lines = trust::of(&self.lines(), T::DOMAIN);
        let read = |line: TrustLine| {
            let envelope = bundles.iter().find(|envelope| envelope.digest() == line.bundle);
            let name = || format!("{} {}", T::DOMAIN.word(), line.version);
            let read = envelope.and_then(|envelope| Some((self.known.open_bundle(envelope)?, self.signed(envelope))));
            let not_so = || OperateError::NotAsTold { what: "trust bundle", name: name() };
            let (bundle, signed_by) = read.ok_or_else(not_so)?;
            Ok(Version { line, bundle, signed_by })
        };
        lines.into_iter().map(read).collect()
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
        let versions = self.versions::<Endpoint>().await?;
        let active = trust::active(&self.lines(), Endpoint::DOMAIN).map(|line| line.version);
        let active = versions.iter().find(|version| Some(version.line.version) == active);
        let pinned = active.and_then(|version| version.bundle.fingerprints().next());
        Ok(pinned.unwrap_or_else(|| self.known.founding.endpoint_fingerprint()))
    }

    /// The outside roots that go on with the next version, and that lines are made with.
    pub async fn outside_in_use<T: InDomain>(&mut self) -> Result<Vec<OutsideRoot>, OperateError> {
        Ok(self.version_in_use::<T>().await?.bundle.body().outside.clone())
    }

    pub async fn version_in_use<T: InDomain>(&mut self) -> Result<Version<T>, OperateError> {
        let active = trust::active(&self.lines(), T::DOMAIN).map(|line| line.version);
        let found = self.versions::<T>().await?.into_iter().find(|version| Some(version.line.version) == active);
        found.ok_or_else(|| Unturned::Step(BadStep::NothingActive(T::DOMAIN.word())).into())
    }

    /// All endpoint roots that are trusted now: with these, a download goes on through a rotation.
    pub async fn endpoint_roots_pem(&mut self) -> Result<String, OperateError> {
        let versions = self.versions::<Endpoint>().await?;
        let trusted = versions.iter().filter(|version| version.line.state.is_trusted()).map(|version| &version.bundle);
        Ok(certificate::to_pem(Roots::of_all(trusted).certificates()))
    }
}
