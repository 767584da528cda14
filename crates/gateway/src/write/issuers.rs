//! What a gateway issues with, and what it shows along (cross-signing): for each root that is trusted, a certificate of
//! its key under it.

use std::sync::Arc;

use ground::clock;
use identity::authority::Authority;
use identity::bundle::{Domain, Endpoint, Identity, InDomain, Roots};
use identity::certificate;
use identity::head::{Mandate, TrustLine, TrustState};
use identity::id::{Fingerprint, KeyId};
use identity::key::{PublicKey, Sign as _};
use identity::time::Timestamp;
use identity::trust;
use member::store::scope::{ScopeError, Unsound};
use org::state::State;
use pki_types::CertificateDer;
use wire::tls::Judgment;

use crate::store::folder::{GatewayFolder, IssuerFiles};
use crate::write::tips::Tips;

/// Whoever checks a chain looks at a dozen certificates: a leaf, and an issuing certificate with its root for so many.
const MOST_PATHS: usize = 5;

/// One way from a key to a trusted root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub version: u64,
    pub state: TrustState,
    pub issuer: CertificateDer<'static>,
    /// When the certificate of the key ends.
    pub until: Timestamp,
    /// It stands in a bundle, so that everybody knows of it.
    pub bundled: bool,
    pub root: CertificateDer<'static>,
}

/// A trusted root under which the key has no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub version: u64,
    pub state: TrustState,
    pub root: Fingerprint,
}

/// The ways of one key, the lowest version first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    pub paths: Vec<Path>,
    pub lacks: Vec<Lack>,
}

impl Ways {
    /// From what the head trusts, and from the certificates that are known of the key: those handed over, and those in
    /// the bundles. What leads only to a retired root is not among them.
    pub fn find(state: &State, domain: Domain, key: KeyId, own: &[CertificateDer<'static>]) -> Self {
        let candidates = certificates_of(state, domain, key, own);
        let bundled: Vec<_> = bundled(state, domain).collect();
        let mut ways = Self::default();
        for (line, root) in roots(state, shown(state, domain)) {
            let leads = |der: &&(CertificateDer<'static>, _)| certificate::is_signed_by(&der.0, &root);
            let best = candidates.iter().filter(leads).max_by_key(|(_, until)| *until);
            let (version, state) = (line.version, line.state);
            match best {
                Some((issuer, until)) => {
                    let (issuer, until, bundled) = (issuer.clone(), *until, bundled.contains(issuer));
                    ways.paths.push(Path { version, state, issuer, until, bundled, root });
                }
                None => ways.lacks.push(Lack { version, state, root: Fingerprint::of_certificate(root.as_ref()) }),
            }
        }
        // Should there be more than can be shown: those that will be needed longest.
        ways.paths.sort_by_key(|path| (rank(path.state), std::cmp::Reverse(path.version)));
        ways.paths.truncate(MOST_PATHS);
        ways.paths.sort_by_key(|path| path.version);
        ways
    }

    /// What follows an endpoint certificate. Other people's programs take the first that fits, so the oldest is first.
    fn with_roots(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        self.paths.iter().flat_map(|path| [path.issuer.clone(), path.root.clone()])
    }

    /// What follows an SVID: the root in use first.
    fn issuers(&self) -> Vec<CertificateDer<'static>> {
        let mut paths: Vec<&Path> = self.paths.iter().collect();
        paths.sort_by_key(|path| path.state != TrustState::Active);
        paths.into_iter().map(|path| path.issuer.clone()).collect()
    }

    /// The root in use, if nothing that this key issues leads there.
    pub fn misses_active(&self) -> Option<&Lack> {
        let shown = self.paths.iter().any(|path| path.state == TrustState::Active);
        self.lacks.iter().find(|lack| lack.state == TrustState::Active && !shown)
    }

    /// Until when what this key issues leads to a root in use.
    pub fn active_until(&self) -> Option<Timestamp> {
        self.paths.iter().filter(|path| path.state == TrustState::Active).map(|path| path.until).max()
    }

    /// When the last of the roots ends to which it leads.
    pub fn root_until(&self) -> Option<Timestamp> {
        let ends = self.paths.iter().filter_map(|path| certificate::read(&path.root).ok());
        ends.map(|root| root.validity.not_after).max()
    }
}

const fn rank(state: TrustState) -> u8 {
    match state {
        TrustState::Active => 0,
        TrustState::Staged => 1,
        TrustState::Grace => 2,
        TrustState::Retired => 3,
    }
}

/// Versions of one domain that are trusted, or no more, whichever head said so: by these a gateway judges others.
pub(crate) fn judged(state: &State, domain: Domain, trusted: bool) -> Vec<TrustLine> {
    let lines = trust::of(&state.trust_lines(), domain).into_iter();
    lines.filter(|line| line.state.is_trusted() == trusted).collect()
}

/// What it shows to others: also what the head in force still trusts, since whoever follows that one goes by it.
fn shown(state: &State, domain: Domain) -> Vec<TrustLine> {
    let mut lines = judged(state, domain, true);
    let head = state.head().into_iter().flat_map(|record| record.head.trusted_bundles(domain));
    let more: Vec<_> = head.filter(|line| !lines.iter().any(|it| it.is_same(line))).cloned().collect();
    lines.extend(more);
    trust::of(&lines, domain)
}

/// Each root of these versions, once.
pub(crate) fn roots(state: &State, lines: Vec<TrustLine>) -> Vec<(TrustLine, CertificateDer<'static>)> {
    let mut all: Vec<(TrustLine, CertificateDer<'static>)> = Vec::new();
    for line in lines {
        let record = state.bundle_of(&line);
        for root in record.and_then(|it| certificate::from_pem(&it.body.bundle_pem).ok()).unwrap_or_default() {
            if !all.iter().any(|(_, known)| *known == root) {
                all.push((line.clone(), root));
            }
        }
    }
    all
}

/// Every certificate of an issuing key that stands in a bundle.
fn bundled(state: &State, domain: Domain) -> impl Iterator<Item = CertificateDer<'static>> {
    let bundles = state.objects.bundles.values().filter(move |record| record.body.domain == domain);
    bundles.flat_map(|record| &record.body.issuers).map(|der| CertificateDer::from(der.0.clone()))
}

/// Certificates of one key, and when each ends.
fn certificates_of(
    state: &State,
    domain: Domain,
    key: KeyId,
    own: &[CertificateDer<'static>],
) -> Vec<(CertificateDer<'static>, Timestamp)> {
    let mut all = Vec::new();
    for der in own.iter().cloned().chain(bundled(state, domain)) {
        if let Ok(read) = certificate::read(&der)
            && read.is_ca
            && read.key == key
            && !all.iter().any(|(known, _)| *known == der)
        {
            all.push((der, read.validity.not_after));
        }
    }
    all
}

/// The key of one domain that is in use, and its ways.
#[derive(Debug)]
pub struct Issuing<D: InDomain> {
    pub authority: Authority<D>,
    pub ways: Ways,
}

impl<D: InDomain> Issuing<D> {
    /// The key that the mandate names, if it lies here; else the one that was in use.
    fn choose(state: &State, folder: &GatewayFolder, wanted: Option<KeyId>) -> Result<Self, ScopeError> {
        let IssuerFiles { keys, certificates } = folder.issuing(D::DOMAIN)?;
        let damaged = |why: Unsound| {
            let path = folder.path(&format!("{}-issuer.pem", D::DOMAIN.word()));
            ScopeError::Damaged { path, why }
        };
        let mut found = Vec::new();
        for key in keys {
            let id = certificate::key_id(key.public()).map_err(|why| damaged(why.into()))?;
            let ways = Ways::find(state, D::DOMAIN, id, &certificates);
            let known = || certificates_of(state, D::DOMAIN, id, &certificates).into_iter().next().map(|(der, _)| der);
            // One that leads nowhere any more still says under which name the key signs.
            if let Some(der) = ways.paths.first().map(|path| path.issuer.clone()).or_else(known) {
                found.push((id, key, ways, der));
            }
        }
        let at = found.iter().position(|(id, ..)| Some(*id) == wanted).unwrap_or(0);
        if at >= found.len() {
            return Err(damaged(Unsound::OtherKey));
        }
        let (_, key, ways, der) = found.swap_remove(at);
        Ok(Self { authority: Authority::load(der, &key).map_err(|why| damaged(why.into()))?, ways })
    }

    /// The certificate that others hear of: of those that stand in no bundle, the one under the newest root.
    pub fn told(&self) -> &CertificateDer<'static> {
        let own = self.ways.paths.iter().filter(|path| !path.bundled).max_by_key(|path| path.version);
        own.map_or_else(|| self.authority.certificate(), |path| &path.issuer)
    }

    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let mut all: Vec<_> = self.ways.paths.iter().map(|path| path.issuer.clone()).collect();
        if all.is_empty() {
            all.push(self.authority.certificate().clone());
        }
        all
    }
}

/// What it all follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    trust: Vec<TrustLine>,
    /// What the head trusts and the ledger does not have.
    missing: Vec<TrustLine>,
    mandated: Option<(KeyId, KeyId)>,
}

impl Basis {
    fn of(state: &State, voice: PublicKey) -> Self {
        let head = state.head().map(|record| &record.head);
        let keys = |mandate: &Mandate| (mandate.identity_issuer, mandate.endpoint_issuer);
        let trust = head.map(|head| head.trust.clone()).unwrap_or_default();
        let lacks = |line: &&TrustLine| line.state.is_trusted() && state.bundle_named(line.bundle).is_none();
        Self {
            missing: trust.iter().filter(lacks).cloned().collect(),
            trust: [Domain::Identity, Domain::Endpoint].into_iter().flat_map(|domain| shown(state, domain)).collect(),
            mandated: head.and_then(|head| head.mandate_for_voice(voice)).map(keys),
        }
    }
}

/// Swapped whole when the head changes trust, or this gateway's mandate.
#[derive(Debug)]
pub struct Issuers {
    basis: Basis,
    pub identity: Issuing<Identity>,
    pub endpoint: Issuing<Endpoint>,
    /// The roots by which this gateway is believed, each alone and all together.
    pub endpoint_roots: Vec<CertificateDer<'static>>,
}

impl Issuers {
    pub fn find(state: &State, folder: &GatewayFolder, voice: PublicKey) -> Result<Self, ScopeError> {
        let basis = Basis::of(state, voice);
        Ok(Self {
            identity: Issuing::choose(state, folder, basis.mandated.map(|keys| keys.0))?,
            endpoint: Issuing::choose(state, folder, basis.mandated.map(|keys| keys.1))?,
            endpoint_roots: roots(state, shown(state, Domain::Endpoint)).into_iter().map(|(_, root)| root).collect(),
            basis,
        })
    }

    pub fn is_of(&self, state: &State, voice: PublicKey) -> bool {
        self.basis == Basis::of(state, voice)
    }

    pub fn svid_chain(&self, leaf: CertificateDer<'static>) -> Vec<CertificateDer<'static>> {
        std::iter::once(leaf).chain(self.identity.ways.issuers()).collect()
    }

    pub fn endpoint_chain(&self, leaf: CertificateDer<'static>) -> Vec<CertificateDer<'static>> {
        std::iter::once(leaf).chain(self.endpoint.ways.with_roots()).collect()
    }

    /// Does the mandate name another key than the one that is here?
    pub fn is_mandated(&self, domain: Domain) -> bool {
        self.basis.mandated.is_none_or(|(identity, endpoint)| match domain {
            Domain::Identity => identity == self.identity.authority.key_id(),
            Domain::Endpoint => endpoint == self.endpoint.authority.key_id(),
        })
    }

    /// What an operator must hear of: what is issued or shown here does not lead where everybody looks.
    pub fn troubles(&self, now: Timestamp) -> Vec<String> {
        let keys = [self.identity.authority.key_id(), self.endpoint.authority.key_id()];
        let ways = [&self.identity.ways, &self.endpoint.ways];
        let lacks = |line: &TrustLine| {
            let (domain, version) = (line.domain.word(), line.version);
            format!(
                "the head trusts version {version} of the {domain} roots, and its bundle is not in this ledger: nodes \
                 cannot follow; a home that has seen it hands it over when it next looks: freehold status"
            )
        };
        let mut all: Vec<String> = self.basis.missing.iter().map(lacks).collect();
        for ((domain, key), ways) in [Domain::Identity, Domain::Endpoint].into_iter().zip(keys).zip(ways) {
            let word = domain.word();
            if let Some(Lack { version, root, .. }) = ways.misses_active() {
                all.push(format!(
                    "the {word} key {key} of this gateway has no certificate under the active {word} root, version \
                     {version} ({root}): what it issues is not believed by whoever trusts that one alone; an operator certifies it: \
                     freehold gateway renew NAME"
                ));
            }
            if let Some(ended) = ways.active_until().filter(|until| *until <= now) {
                all.push(format!(
                    "the certificate of the {word} key {key} of this gateway ended at {ended}: what it issues is not \
                     believed; operators renew it: freehold rotate {word}"
                ));
            }
            if !self.is_mandated(domain) {
                all.push(format!(
                    "the mandate of this gateway names another {word} key than {key}, and that one is not here with a \
                     certificate: what is issued here is not believed"
                ));
            }
        }
        all
    }

    /// Brings the folder's files in line with the keys in use.
    pub fn settle(&self, folder: &GatewayFolder) -> Result<(), ScopeError> {
        for (domain, key, certificates) in [
            (Domain::Identity, self.identity.authority.key_id(), self.identity.certificates()),
            (Domain::Endpoint, self.endpoint.authority.key_id(), self.endpoint.certificates()),
        ] {
            if folder.settle(domain, key, &certificates)? {
                tracing::warn!(domain = domain.word(), %key, "this gateway issues with its spare key from now on");
            }
        }
        Ok(())
    }
}

/// The keys that a gateway issues with.
#[derive(Debug)]
pub struct Keys {
    /// In use now, and what is shown along.
    pub issuers: Arc<arc_swap::ArcSwap<Issuers>>,
    /// Issuing while key files are drawn or moved.
    pub(crate) drawing: std::sync::Mutex<()>,
}

/// What is issued with now, and how that is brought up to date.
#[derive(Debug)]
pub(crate) struct IssuersUpdate {
    pub folder: GatewayFolder,
    pub tips: Arc<Tips>,
    pub current: Arc<arc_swap::ArcSwap<Issuers>>,
}

impl IssuersUpdate {
    /// After a commit, or again if it failed: true if it is what the state says.
    pub(crate) fn bring_up(&self, state: &State) -> bool {
        let voice = self.tips.voice().public();
        if self.current.load().is_of(state, voice) {
            return true;
        }
        match Issuers::find(state, &self.folder, voice) {
            Ok(issuers) => {
                for why in issuers.troubles(clock::now()) {
                    tracing::error!("{why}");
                }
                self.current.store(Arc::new(issuers));
                true
            }
            Err(why) => {
                tracing::error!(%why, "cannot see what to issue with; will try again");
                false
            }
        }
    }
}

/// By what callers are judged: the head, and the roots that it has trusted.
pub(crate) fn judgment(state: &State) -> Option<Judgment> {
    let mut head = state.head()?.head.clone();
    // Remove wins, whichever head named it first.
    head.revocations.absorb(state.revoked());
    let (org, name) = (state.org, state.name.clone());
    let numbered = |(line, root): (TrustLine, _)| (line.version, root);
    let rooted = |trusted: bool| roots(state, judged(state, Domain::Identity, trusted)).into_iter().map(numbered);
    let roots = Roots::numbered(rooted(true));
    let former = rooted(false).filter(|(_, root)| !roots.certificates().contains(root)).collect::<Vec<_>>();
    Some(Judgment { org, name, roots, head, former: Roots::numbered(former) })
}
