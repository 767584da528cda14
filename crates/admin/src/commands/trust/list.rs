//! `freehold trust list`: every version of the trusted roots, in both domains.

use clap::Args;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::head::Grace;
use identity::id::Fingerprint;
use identity::time::Timestamp;
use node::report::{Failure, show};
use operate::trust::Version;
use serde::Serialize;

use crate::home::{Common, failure};
use crate::words::table;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust list")]
pub struct List {}

#[derive(Serialize)]
struct Told {
    domain: &'static str,
    trust_bundle_version: u64,
    state: &'static str,
    sha256_fingerprint: Fingerprint,
    published_at: Timestamp,
    replaces_version: Option<u64>,
    reverts: Option<u64>,
    grace: Option<Grace>,
    distrusted: bool,
}

impl Told {
    fn of<D: InDomain>(version: &Version<D>) -> Self {
        let (line, body) = (&version.line, version.bundle.body());
        Self {
            domain: D::DOMAIN.word(),
            trust_bundle_version: line.version,
            state: line.state.word(),
            sha256_fingerprint: body.sha256_fingerprint,
            published_at: body.published_at,
            replaces_version: body.replaces_version,
            reverts: body.reverts,
            grace: line.grace,
            distrusted: line.distrusted,
        }
    }
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the trusted roots";
        let mut session = common.session(doing).await?;
        let endpoint = session.versions::<Endpoint>().await.map_err(|why| failure(doing, &why))?;
        let identity = session.versions::<Identity>().await.map_err(|why| failure(doing, &why))?;
        let told: Vec<Told> = endpoint.iter().map(Told::of).chain(identity.iter().map(Told::of)).collect();
        show(common.json, &told, || {
            let row = |told: &Told| {
                let (version, root) = (told.trust_bundle_version.to_string(), told.sha256_fingerprint.to_string());
                vec![told.domain.to_owned(), version, told.state.to_owned(), told.published_at.to_string(), root]
            };
            table(&["DOMAIN", "VERSION", "STATE", "PUBLISHED", "SHA-256"], &told.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}
