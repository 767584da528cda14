//! What the ledger says of trust bundles.

use identity::bundle::Domain;
use identity::head::TrustLine;
use identity::id::Digest;

use crate::state::{BundleRecord, State};

impl State {
    /// A version of the trusted roots, by its number.
    pub fn bundle(&self, domain: Domain, version: u64) -> Option<(&TrustLine, &BundleRecord)> {
        let lines = self.head()?.head.trust.iter();
        let line = lines.into_iter().find(|line| line.domain == domain && line.version == version)?;
        Some((line, self.objects.bundles.get(&line.bundle)?))
    }

    /// As the head in force says, and what rivals took away.
    pub fn trust_lines(&self) -> Vec<TrustLine> {
        self.judged.ground.trust()
    }

    /// The bundles that the head in force names as trusted: whoever follows it asks for just these.
    pub fn named_bundles(&self, domain: Domain) -> impl Iterator<Item = &BundleRecord> {
        let lines = self.head().into_iter().flat_map(move |record| record.head.trusted_bundles(domain));
        lines.filter_map(|line| self.bundle_of(line))
    }

    /// The bundle of a line, if it says of itself what the line does.
    pub fn bundle_of(&self, line: &TrustLine) -> Option<&BundleRecord> {
        self.objects.bundles.get(&line.bundle).filter(|record| line.fits(&record.body, &self.name))
    }

    /// The same, by what the head calls it.
    pub fn bundle_named(&self, digest: Digest) -> Option<&BundleRecord> {
        self.objects.bundles.get(&digest)
    }
}
