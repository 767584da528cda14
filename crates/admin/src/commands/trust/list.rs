//! `freehold trust list`: every version of the trusted roots, in both domains, and who has each.

use clap::Args;
use ground::clock;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::head::{Grace, TrustLine, TrustState};
use identity::id::Fingerprint;
use identity::time::Timestamp;
use operate::trust::adopted;
use operate::trust::adopted::{Adoption, Stances, bounded};
use operate::trust::versions;
use operate::trust::versions::{Version, Versions};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust list
  freehold trust list --json                  every name, also where many are missing

A version is staged (handed out beside the one in use), active (in use), in grace (still trusted, on its way out) or
retired (trusted no more). Nodes trust every version that is not retired. NODES says how many members go by it, each in
its own signed word; below are those that do not, and why.")]
pub struct List {}

#[derive(Serialize)]
struct Told {
    domain: &'static str,
    trust_bundle_version: u64,
    state: &'static str,
    sha256_fingerprint: Option<Fingerprint>,
    published_at: Option<Timestamp>,
    replaces_version: Option<u64>,
    reverts: Option<u64>,
    grace: Option<Grace>,
    distrusted: bool,
    /// Absent of what is retired, and where no gateway tells.
    adoption: Option<Adoption>,
    /// The gateway does not have the bundle.
    missing: bool,
    #[serde(skip)]
    words: String,
}

impl Told {
    fn of<D: InDomain>(version: &Version<D>, stances: Option<&Stances>, now: Timestamp) -> Self {
        let (line, body) = (&version.line, version.bundle.body());
        let adoption = |stances: &Stances| stances.adoption(D::DOMAIN, line.version, body.published_at, now);
        Self {
            domain: D::DOMAIN.word(),
            trust_bundle_version: line.version,
            state: line.state.word(),
            sha256_fingerprint: Some(body.sha256_fingerprint),
            published_at: Some(body.published_at),
            replaces_version: body.replaces_version,
            reverts: body.reverts,
            grace: line.grace,
            distrusted: line.distrusted,
            adoption: stances.filter(|_| line.state.is_trusted()).map(adoption),
            missing: false,
            words: state_words(line, now),
        }
    }

    /// What the head says of a version is all that is known of it.
    fn unread(line: &TrustLine, now: Timestamp) -> Self {
        Self {
            domain: line.domain.word(),
            trust_bundle_version: line.version,
            state: line.state.word(),
            sha256_fingerprint: None,
            published_at: None,
            replaces_version: None,
            reverts: None,
            grace: line.grace,
            distrusted: line.distrusted,
            adoption: None,
            missing: true,
            words: format!("{}, MISSING", state_words(line, now)),
        }
    }

    /// Everything of one domain, the oldest first.
    fn all<D: InDomain>(versions: &Versions<D>, stances: Option<&Stances>, now: Timestamp) -> Vec<Self> {
        let here = versions.here.iter().map(|version| Self::of(version, stances, now));
        let mut all: Vec<_> = here.chain(versions.missing.iter().map(|line| Self::unread(line, now))).collect();
        all.sort_by_key(|told| told.trust_bundle_version);
        all
    }

    fn row(&self) -> Vec<String> {
        let bar = self.adoption.as_ref().map_or_else(|| "-".to_owned(), Adoption::bar);
        let (version, root) = (self.trust_bundle_version.to_string(), or_dash(self.sha256_fingerprint.as_ref()));
        vec![self.domain.to_owned(), version, self.words.clone(), bar, or_dash(self.published_at.as_ref()), root]
    }

    /// Who is behind, where that matters: nobody need have what is on its way out.
    fn rest(&self) -> Option<String> {
        if self.missing && self.state != TrustState::Retired.word() {
            return Some(format!(
                "{} {} is trusted, and the gateway does not have it: nodes cannot follow\n  a home that has seen it \
                 hands it over when it next looks: freehold status",
                self.domain, self.trust_bundle_version
            ));
        }
        let wanted = self.state == TrustState::Staged.word() || self.state == TrustState::Active.word();
        let adoption = self.adoption.as_ref().filter(|adoption| wanted && !adoption.is_whole())?;
        let lines: Vec<_> = bounded(&adoption.rest()).into_iter().map(|line| format!("  {line}")).collect();
        Some(format!("{} {} is not with:\n{}", self.domain, self.trust_bundle_version, lines.join("\n")))
    }
}

/// Where a version stands, and until when.
pub fn state_words(line: &TrustLine, now: Timestamp) -> String {
    match (line.state, line.grace) {
        (TrustState::Retired, _) if line.distrusted => "retired, its key was stolen".to_owned(),
        (TrustState::Grace, Some(grace)) if now < grace.until => format!("grace until {}", grace.until),
        (TrustState::Grace, Some(grace)) => format!("grace, over since {}", grace.until),
        (state, _) => state.word().to_owned(),
    }
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the trusted roots";
        let mut session = common.session(doing).await?;
        let endpoint = versions::all::<Endpoint>(&mut session).await.during(doing)?;
        let identity = versions::all::<Identity>(&mut session).await.during(doing)?;
        let (stances, now) = (adopted::stances_known(&mut session).await.during(doing)?, clock::now());
        let mut told = Told::all(&endpoint, stances.as_ref(), now);
        told.extend(Told::all(&identity, stances.as_ref(), now));
        show(common.json, &told, || {
            let rows: Vec<_> = told.iter().map(Told::row).collect();
            let versions = table(&["DOMAIN", "VERSION", "STATE", "NODES", "PUBLISHED", "SHA-256"], &rows);
            let rest = told.iter().filter_map(Told::rest);
            std::iter::once(versions).chain(rest).collect::<Vec<_>>().join("\n\n")
        });
        Ok(())
    }
}
