//! `freehold trust show DOMAIN N`: one version of the trusted roots, with everything in it.

use clap::Args;
use ground::clock;
use identity::bundle::{BundleBody, Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::head::{Grace, Mandate};
use identity::id::{Fingerprint, KeyId};
use identity::time::Timestamp;
use operate::session::Session;
use operate::trust::adopted;
use operate::trust::adopted::{Adoption, Stances, bounded};
use operate::trust::versions;
use operate::trust::versions::Version;
use pki_types::CertificateDer;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::or_dash;

use super::domain::DomainWord;
use super::list::state_words;
use super::no_version;
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust show endpoint 2
  freehold trust show identity                the one in use
  freehold trust show endpoint 2 --pem > roots.pem")]
pub struct Show {
    /// Who may be a gateway, or who may be a member
    #[arg(value_enum)]
    domain: DomainWord,
    /// Its version [default: the one in use]
    version: Option<u64>,
    /// Print the root certificates as PEM, and nothing else
    #[arg(long)]
    pem: bool,
}

#[derive(Serialize)]
struct Shown {
    trust_bundle_version: u64,
    environment_name: String,
    environment_domain: Vec<String>,
    domain: &'static str,
    bundle_pem: String,
    sha256_fingerprint: Fingerprint,
    published_at: Timestamp,
    replaces_version: Option<u64>,
    reverts: Option<u64>,
    state: &'static str,
    grace: Option<Grace>,
    distrusted: bool,
    signed_by: Vec<String>,
    roots: Vec<CertificateTold>,
    issuers: Vec<IssuerTold>,
    outside: Vec<OutsideTold>,
    adoption: Option<Adoption>,
    #[serde(skip)]
    words: String,
}

#[derive(Serialize)]
struct CertificateTold {
    subject: String,
    sha256_fingerprint: Fingerprint,
    not_after: Option<Timestamp>,
}

#[derive(Serialize)]
struct IssuerTold {
    /// Absent if no mandate names its key any more.
    gateway: Option<String>,
    key: Option<KeyId>,
    not_after: Option<Timestamp>,
}

#[derive(Serialize)]
struct OutsideTold {
    hosts: Vec<String>,
    roots: Vec<CertificateTold>,
}

impl CertificateTold {
    fn of(der: &CertificateDer<'_>) -> Self {
        Self {
            subject: certificate::subject(der).unwrap_or_else(|_| "unreadable".to_owned()),
            sha256_fingerprint: Fingerprint::of_certificate(der.as_ref()),
            not_after: certificate::read(der).ok().map(|reading| reading.validity.not_after),
        }
    }

    fn in_words(&self) -> String {
        format!("{}, until {}\n    SHA-256 {}", self.subject, or_dash(self.not_after.as_ref()), self.sha256_fingerprint)
    }
}

impl Show {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not show the trusted roots";
        let mut session = common.session(doing).await?;
        match self.domain.into() {
            Domain::Endpoint => self.tell::<Endpoint>(&mut session, common, doing).await,
            Domain::Identity => self.tell::<Identity>(&mut session, common, doing).await,
        }
    }

    async fn tell<D: InDomain>(&self, session: &mut Session, common: &Common, doing: &str) -> Result<(), Failure> {
        let versions = versions::all::<D>(session).await.during(doing)?;
        let active = identity::trust::active(&session.lines(), D::DOMAIN).map(|line| line.version);
        let number = self.version.or(active).unwrap_or_default();
        let found = versions.need(number).during(doing)?;
        let version = &found.ok_or_else(|| no_version(doing, D::DOMAIN, number))?;
        if self.pem {
            print!("{}", version.bundle.pem());
            return Ok(());
        }
        let stances = adopted::stances_known(session).await.during(doing)?;
        let shown = Shown::of(version, &session.head().mandates, stances.as_ref());
        show(common.json, &shown, || shown.in_words());
        Ok(())
    }
}

impl Shown {
    fn of<D: InDomain>(version: &Version<D>, mandates: &[Mandate], stances: Option<&Stances>) -> Self {
        let (line, body, now) = (&version.line, version.bundle.body(), clock::now());
        let adoption = |stances: &Stances| stances.adoption(D::DOMAIN, line.version, body.published_at, now);
        Self {
            trust_bundle_version: body.trust_bundle_version,
            environment_name: body.environment_name.to_string(),
            environment_domain: body.environment_domain.iter().map(ToString::to_string).collect(),
            domain: D::DOMAIN.word(),
            bundle_pem: body.bundle_pem.clone(),
            sha256_fingerprint: body.sha256_fingerprint,
            published_at: body.published_at,
            replaces_version: body.replaces_version,
            reverts: body.reverts,
            state: line.state.word(),
            grace: line.grace,
            distrusted: line.distrusted,
            signed_by: version.signed_by.iter().map(ToString::to_string).collect(),
            roots: version.bundle.roots().certificates().iter().map(CertificateTold::of).collect(),
            issuers: body.issuers.iter().map(|der| issuer(&der.0, mandates)).collect(),
            outside: outside(body),
            adoption: stances.filter(|_| line.state.is_trusted()).map(adoption),
            words: state_words(line, now),
        }
    }

    fn in_words(&self) -> String {
        let replaces = match (self.reverts, self.replaces_version) {
            (Some(reverts), _) => format!("takes version {reverts} back"),
            (None, Some(replaces)) => format!("version {replaces}"),
            (None, None) => "nothing: it is the founders'".to_owned(),
        };
        let mut lines = vec![
            format!("{} {} of `{}`: {}", self.domain, self.trust_bundle_version, self.environment_name, self.words),
            format!("  gateways' names  {}", self.environment_domain.join(" ")),
            format!("  SHA-256          {}", self.sha256_fingerprint),
            format!("  published        {}", self.published_at),
            format!("  replaces         {replaces}"),
            format!("  signed by        {}", self.signed_by.join(", ")),
        ];
        if let Some(grace) = self.grace {
            lines.push(format!("  grace            {} to {}", grace.since, grace.until));
        }
        lines.extend(self.roots.iter().map(|root| format!("  root {}", root.in_words())));
        lines.extend(self.issuers.iter().map(|issuer| {
            let gateway = issuer.gateway.as_deref().map_or_else(|| "nobody's now".to_owned(), |it| format!("`{it}`"));
            format!("  issuing key of {gateway}, until {}", or_dash(issuer.not_after.as_ref()))
        }));
        for outside in &self.outside {
            lines.push(format!("  OUTSIDE root, for downloads from {} alone", outside.hosts.join(" ")));
            lines.extend(outside.roots.iter().map(|root| format!("    {}", root.in_words())));
        }
        if let Some(adoption) = &self.adoption {
            lines.push(format!("  nodes            {}", adoption.bar()));
            lines.extend(bounded(&adoption.rest()).into_iter().map(|line| format!("    {line}")));
        }
        lines.join("\n")
    }
}

fn issuer(der: &[u8], mandates: &[Mandate]) -> IssuerTold {
    let reading = certificate::read(&CertificateDer::from(der)).ok();
    let key = reading.as_ref().map(|reading| reading.key);
    let names = |mandate: &&Mandate| Some(mandate.identity_issuer) == key || Some(mandate.endpoint_issuer) == key;
    IssuerTold {
        gateway: mandates.iter().find(names).map(|mandate| mandate.gateway.to_string()),
        key,
        not_after: reading.map(|reading| reading.validity.not_after),
    }
}

fn outside(body: &BundleBody) -> Vec<OutsideTold> {
    let of = |outside: &identity::bundle::OutsideRoot| OutsideTold {
        hosts: outside.hosts.iter().map(ToString::to_string).collect(),
        roots: certificate::from_pem(&outside.pem).unwrap_or_default().iter().map(CertificateTold::of).collect(),
    };
    body.outside.iter().map(of).collect()
}
