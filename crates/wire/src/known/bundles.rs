//! Which trust bundles hold, by what is known of the org: signed, and those that the head names.

use identity::bundle::{Bundle, InDomain};
use identity::envelope::Envelope;

use super::Known;

impl Known {
    /// The trusted bundles of one domain among what somebody gave; each must be the one that the head names, and hold.
    pub fn bundles_among<D: InDomain>(&self, given: &[Envelope]) -> Result<Vec<Bundle<D>>, &'static str> {
        let mut bundles = Vec::new();
        for line in self.head.head.trusted_bundles(D::DOMAIN) {
            let envelope = given.iter().find(|envelope| envelope.digest() == line.bundle);
            let envelope = envelope.ok_or("a trust bundle that the head names is missing")?;
            let bundle: Bundle<D> = self.open_bundle(envelope).ok_or("a trust bundle does not hold")?;
            if !line.fits(bundle.body(), &self.founding.record.name) {
                return Err("a trust bundle is not the version, or not of the org, that the head says");
            }
            bundles.push(bundle);
        }
        if bundles.is_empty() { Err("the head names no trust bundle") } else { Ok(bundles) }
    }

    /// A bundle may have been signed by an earlier set than the one in force.
    pub fn open_bundle<D: InDomain>(&self, envelope: &Envelope) -> Option<Bundle<D>> {
        self.signer_sets().iter().find_map(|set| Bundle::open(set, envelope).ok())
    }
}
