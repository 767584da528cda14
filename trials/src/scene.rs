//! An org by hand: what tests know of it, with keys that follow from names.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::collections::BTreeSet;

use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head, Mandate, Revocations};
use identity::id::{KeyId, sha256};
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::founding::{Founding, FoundingRecord};
use wire::known::Known;

pub const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);

pub fn key(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

/// One who signs alone.
pub fn quorum(name: &str) -> Quorum {
    Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key(name).public() }]).unwrap()
}

/// The org `harbor`, in which `ann` signs.
pub fn founding() -> Founding {
    founded_on(vec![2])
}

/// The same, with this endpoint root.
pub fn founded_on(endpoint_root: Vec<u8>) -> Founding {
    let record = FoundingRecord {
        name: "harbor".parse().unwrap(),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(endpoint_root),
        signers: quorum("ann"),
        recovery: quorum("safe"),
        recovery_delay: Seconds::DAY,
    };
    Founding::open(Envelope::seal(None, &record).unwrap().signed(&key("ann")).unwrap()).unwrap()
}

/// The first head, with nothing in it.
pub fn head(founding: &Founding) -> Head {
    Head {
        version: 1,
        reverts: None,
        cause: Cause::Founding,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: None,
        previous: Vec::new(),
        recent: Vec::new(),
        record: std::collections::BTreeMap::new(),
        mandates: Vec::new(),
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers: founding.first_signers().as_ref(),
        release: None,
        fleet: None,
    }
}

/// A gateway that speaks with the key of its name, from yesterday until tomorrow.
pub fn mandate(gateway: &str) -> Mandate {
    Mandate {
        gateway: gateway.parse().unwrap(),
        voice: key(gateway).public(),
        identity_issuer: KeyId([1; 32]),
        endpoint_issuer: KeyId([2; 32]),
        hosts: Vec::new(),
        kinds: BTreeSet::new(),
        names: Vec::new(),
        svid_ttl: Seconds::DAY,
        not_before: NOW - Seconds::DAY,
        not_after: NOW + Seconds::DAY,
        addresses: Vec::new(),
    }
}

pub fn sealed<T: Payload>(founding: &Founding, body: &T, by: &str) -> Envelope {
    Envelope::seal(Some(founding.id), body).unwrap().signed(&key(by)).unwrap()
}

/// Who knows this head, which `ann` signed.
pub fn known(founding: &Founding, head: &Head) -> Known {
    Known::new(founding.clone(), &[], &sealed(founding, head, "ann")).unwrap()
}
