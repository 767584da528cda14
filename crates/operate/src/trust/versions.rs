//! The trusted roots, as an operator sees them: every version, checked against the head.

use identity::bundle::{Bundle, BundleBody, Endpoint, InDomain, OutsideRoot, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::TrustLine;
use identity::id::Fingerprint;
use identity::principal::SignerName;
use identity::time::Timestamp;
use identity::trust::{self, BadStep};
use wire::known::Known;

use crate::pending::signed_by;
use crate::session::{Result, Session, TrustError};

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
    /// Versions whose bundle is not here.
    pub missing: Vec<TrustLine>,
}

impl<D: InDomain> Versions<D> {
    /// What there is, if nothing lacks that is trusted.
    pub fn trusted(self) -> Result<Vec<Version<D>>> {
        let missing: Vec<_> = self.missing.iter().filter(|line| line.state.is_trusted()).map(name).collect();
        if missing.is_empty() { Ok(self.here) } else { Err(TrustError::BundleMissing(missing).into()) }
    }

    /// One that is needed.
    pub fn need(self, version: u64) -> Result<Option<Version<D>>> {
        if let Some(line) = self.missing.iter().find(|line| line.version == version) {
            return Err(TrustError::BundleMissing(vec![name(line)]).into());
        }
        Ok(self.here.into_iter().find(|it| it.line.version == version))
    }
}

fn name(line: &TrustLine) -> String {
    format!("{} {}", line.domain.word(), line.version)
}

/// Every version of one domain that the head names, as this home's own copy of the ledger has it.
pub async fn all<T: InDomain>(session: &mut Session) -> Result<Versions<T>> {
    let state = session.fold_here().await?;
    let mut versions = Versions { here: Vec::new(), missing: Vec::new() };
    for line in trust::of(&session.lines(), T::DOMAIN) {
        let envelope = state.bundle_named(line.bundle).map(|record| &record.envelope);
        let read = envelope.and_then(|envelope| Some((session.known.open_bundle(envelope)?, envelope)));
        match read {
            Some((bundle, envelope)) => {
                versions.here.push(Version { line, bundle, signed_by: signers_of(&session.known, envelope) });
            }
            None => versions.missing.push(line),
        }
    }
    Ok(versions)
}

/// What signers signed of the roots that are trusted now.
pub(crate) async fn trusted_envelopes<T: InDomain>(session: &mut Session) -> Result<Vec<Envelope>> {
    all::<T>(session).await?.trusted()?;
    let (state, head) = (session.fold_here().await?, session.head());
    let named = head.trusted_bundles(T::DOMAIN);
    Ok(named.filter_map(|line| Some(state.bundle_named(line.bundle)?.envelope.clone())).collect())
}

/// Whose signatures on a bundle hold, of the set that it counts under.
fn signers_of(known: &Known, envelope: &Envelope) -> Vec<SignerName> {
    let sets = known.signer_sets();
    let met = sets.iter().find(|set| set.open::<BundleBody>(envelope).is_ok());
    met.map(|set| signed_by(&set.quorum, envelope)).unwrap_or_default()
}

async fn active<T: InDomain>(session: &mut Session) -> Result<Option<Version<T>>> {
    let active = trust::active(&session.lines(), T::DOMAIN).map(|line| line.version);
    all::<T>(session).await?.need(active.unwrap_or_default())
}

/// When the last root of a domain that is trusted ends; nothing if none is here.
pub(crate) async fn roots_until<T: InDomain>(session: &mut Session) -> Result<Option<Timestamp>> {
    let all = all::<T>(session).await?.here;
    let trusted = all.iter().filter(|version| version.line.state.is_trusted());
    Ok(Roots::of_all(trusted.map(|version| &version.bundle)).until())
}

pub(crate) async fn in_use<T: InDomain>(session: &mut Session) -> Result<Version<T>> {
    let found = active::<T>(session).await?;
    found.ok_or_else(|| TrustError::Step(BadStep::NothingActive(T::DOMAIN.word())).into())
}

/// The endpoint root that a code pins: the one in use.
pub(crate) async fn pinned_root(session: &mut Session) -> Result<Fingerprint> {
    let pinned = active::<Endpoint>(session).await?.and_then(|version| version.bundle.fingerprints().next());
    Ok(pinned.unwrap_or_else(|| session.known.founding.endpoint_fingerprint()))
}

/// The outside roots that go on with the next version, and that lines are made with.
pub(crate) async fn outside_in_use<T: InDomain>(session: &mut Session) -> Result<Vec<OutsideRoot>> {
    Ok(in_use::<T>(session).await?.bundle.body().outside.clone())
}

/// All endpoint roots that are trusted now: with these, a download goes on through a rotation.
pub(crate) async fn endpoint_roots_pem(session: &mut Session) -> Result<String> {
    in_use::<Endpoint>(session).await?;
    let versions = all::<Endpoint>(session).await?.here;
    let trusted = versions.iter().filter(|version| version.line.state.is_trusted()).map(|version| &version.bundle);
    Ok(certificate::to_pem(Roots::of_all(trusted).certificates()))
}

/// What another head said of trust that the one in force does not know, in words.
pub fn turned_elsewhere(session: &Session) -> Vec<String> {
    let head = session.head();
    let (own, mut all) = (&head.trust, Vec::new());
    for line in &session.lines() {
        let (version, word, state) = (line.version, line.domain.word(), line.state.word());
        let before = own.iter().find(|it| it.is_same(line));
        if before.is_some_and(|it| it.state == line.state && it.distrusted == line.distrusted) {
            continue;
        }
        let theft = if line.distrusted { ", its root was stolen" } else { "" };
        let number = if own.iter().any(|it| it.has_number_of(line) && !it.is_same(line)) {
            " (two bundles were given this number; of these only one is used, ever)"
        } else {
            ""
        };
        let was = before.map_or("not listed", |it| it.state.word());
        all.push(format!(
            "version {version} of `{word}` is {state}{theft} by a head that was published at another gateway at the same \
             time; the head in force, {}, says {was}{number}. The next head says {state}: freehold refresh; then look: \
             freehold trust list",
            head.version
        ));
    }
    all
}
