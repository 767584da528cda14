//! An org by hand: what tests know of it, with keys that follow from names.

use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head, Revocations};
use identity::id::{OrgId, sha256};
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer, SignerSet};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::founding::{Founding, FoundingRecord};

use crate::known::Known;

pub(crate) const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);

pub(crate) fn key(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

pub(crate) fn quorum(name: &str) -> Quorum {
    Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key(name).public() }]).unwrap()
}

pub(crate) fn sealed<T: Payload>(org: Option<OrgId>, body: &T, by: &str) -> Envelope {
    Envelope::seal(org, body).unwrap().signed(&key(by)).unwrap()
}

/// A head with nothing in it, by one of the signers.
pub(crate) fn head(set: &SignerSet, version: u64, by: &str) -> Envelope {
    let body = Head {
        version,
        reverts: None,
        cause: Cause::Founding,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY.times(30),
        members: None,
        previous: Vec::new(),
        recent: Vec::new(),
        record: std::collections::BTreeMap::new(),
        mandates: Vec::new(),
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers: set.as_ref(),
        release: None,
        fleet: None,
    };
    sealed(Some(set.org), &body, by)
}

/// The org `harbor`, in which `ann` signs, as it was founded.
pub(crate) fn known() -> Known {
    let record = FoundingRecord {
        name: "harbor".parse().unwrap(),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(vec![2]),
        signers: quorum("ann"),
        recovery: quorum("safe"),
        recovery_delay: Seconds::DAY,
    };
    let founding = Founding::open(sealed(None, &record, "ann")).unwrap();
    let head = head(&founding.first_signers(), 1, "ann");
    Known::new(founding, &[], &head).unwrap()
}
