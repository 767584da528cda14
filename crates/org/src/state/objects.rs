//! What operators signed beside heads and invites, put where it is asked for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload as _};
use identity::id::{Digest, OrgId};
use identity::principal::SignerName;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};

use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::release::Release;
use crate::state::consent::Consent;
use crate::suspend::{self, Suspension};

/// A function of the objects that came, and of who signed for the org.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    pub bundles: BTreeMap<Digest, BundleRecord>,
    /// By digest of the release's envelope.
    pub releases: BTreeMap<Digest, ReleaseRecord>,
    /// By digest of the node key, the first first.
    pub suspensions: BTreeMap<Digest, Vec<SuspensionRecord>>,
    /// By digest of the node key, then of the manifest: what operators let stay.
    pub(crate) consents: BTreeMap<Digest, BTreeMap<Digest, Envelope>>,
    /// By digest of the claim: the words of those who said yes, the one that most signed first.
    pub(crate) approvals: BTreeMap<Digest, Vec<Envelope>>,
    /// By digest: names that nobody need look at.
    pub(crate) waivers: BTreeMap<Digest, Envelope>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleRecord {
    pub body: BundleBody,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRecord {
    pub release: Release,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspensionRecord {
    pub by: SignerName,
    pub at: Timestamp,
    pub until: Timestamp,
    pub reason: String,
    pub envelope: Envelope,
}

/// By whose signatures objects are filed.
#[derive(Debug)]
pub(crate) struct Signed {
    pub org: OrgId,
    /// In force.
    pub set: SignerSet,
    /// From the first to the one in force.
    pub sets: Vec<SignerSet>,
    /// Two sets claim one place.
    pub frozen: bool,
}

impl Signed {
    /// By the threshold of any set that was ever in force: what former signers made is shown, and does not count.
    pub(crate) fn ever(&self, object: &Envelope) -> bool {
        let enough = |set: &SignerSet| object.signers_among(&set.quorum.keys()).len() >= set.quorum.threshold();
        self.sets.iter().any(enough)
    }
}

impl Objects {
    /// What goes with the signers whose words they are: it is filed anew.
    pub(crate) fn forget_words(&mut self) {
        self.approvals.clear();
        self.waivers.clear();
        self.consents.clear();
        self.suspensions.clear();
    }

    /// What enough of no set of signers have signed is nobody's.
    pub(crate) fn file(&mut self, digest: Digest, object: Envelope, by: &Signed) {
        let org = Some(by.org);
        match object.kind() {
            BundleBody::KIND => {
                if let Ok(body) = object.peek::<BundleBody>(org) {
                    self.bundles.insert(digest, BundleRecord { body, envelope: object });
                }
            }
            Release::KIND => {
                if let Some(release) = object.peek::<Release>(org).ok().filter(|release| release.check().is_ok()) {
                    self.releases.insert(digest, ReleaseRecord { release, envelope: object });
                }
            }
            Waiver::KIND => {
                let waiver = object.peek::<Waiver>(org).ok();
                let short = waiver.is_some_and(|waiver| waiver.until.since(waiver.from) <= Waiver::LONGEST);
                if short && by.ever(&object) {
                    self.waivers.insert(digest, object);
                }
            }
            Decision::KIND => {
                if let Ok(decision) = object.peek::<Decision>(org) {
                    self.file_decision(&decision, object, by);
                }
            }
            Consent::KIND => {
                let signed = !object.signers_among(&by.set.quorum.keys()).is_empty();
                if let (true, Ok(consent)) = (signed, object.peek::<Consent>(org)) {
                    self.consents.entry(consent.node_key).or_default().insert(consent.manifest, object);
                }
            }
            Suspension::KIND => {
                if let Ok(suspension) = object.peek::<Suspension>(org) {
                    self.file_suspension(&suspension, &object, by);
                }
            }
            _ => {}
        }
    }

    /// Until when each counts is asked when it is needed: one that is over hides no other.
    fn file_decision(&mut self, decision: &Decision, object: Envelope, by: &Signed) {
        let keys = by.set.quorum.keys();
        let signers = |it: &Envelope| it.signers_among(&keys).len();
        if decision.verdict == Verdict::Approve && signers(&object) > 0 {
            let words = self.approvals.entry(decision.about).or_default();
            words.retain(|known| known.digest() != object.digest());
            words.push(object);
            words.sort_by_cached_key(|it| (Reverse(signers(it)), it.digest()));
        }
    }

    fn file_suspension(&mut self, suspension: &Suspension, envelope: &Envelope, by: &Signed) {
        // While two sets claim one place, nobody is suspended.
        if !suspend::is_sound(suspension) || by.frozen {
            return;
        }
        for key in envelope.signers_among(&by.set.quorum.keys()) {
            let mut signers = by.set.quorum.signers().iter();
            let Some(by) = signers.find(|it| it.key == key).map(|it| it.name.clone()) else { continue };
            let Suspension { at, until, reason, .. } = suspension.clone();
            let record = SuspensionRecord { by, at, until, reason, envelope: envelope.kept(&[key].into()) };
            let records = self.suspensions.entry(suspension.node_key).or_default();
            if !records.contains(&record) {
                records.push(record);
                records.sort_by_key(|record| (record.at, record.envelope.digest()));
            }
        }
    }

    /// Every suspension of this node key, the first in history first.
    pub fn suspensions_of(&self, node_key: Digest) -> &[SuspensionRecord] {
        self.suspensions.get(&node_key).map_or(&[], Vec::as_slice)
    }

    /// By the signers' own dates, for looking back. What counts now is asked of `Suspensions`, by one's own first sight.
    pub fn suspended(&self, node_key: Digest, now: Timestamp) -> Option<&SuspensionRecord> {
        // A signer's first word alone: it cannot be repeated.
        let mut signers = BTreeSet::new();
        let records = self.suspensions_of(node_key).iter().filter(|record| signers.insert(&record.by));
        let in_force = records.filter(|record| record.at <= now + Seconds::MINUTE && now < record.until);
        in_force.max_by_key(|record| record.until)
    }

    /// The word that lets this manifest stay on this node, if it was given.
    pub fn consent_to(&self, node_key: Digest, manifest: Digest) -> Option<&Envelope> {
        self.consents.get(&node_key)?.get(&manifest)
    }
}
