//! The first head, and a gateway's mandate.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Cause, Head, Mandate, Revocations};
use identity::id::KeyId;
use identity::key::Sign as _;
use identity::signers::SignersRef;
use identity::time::Seconds;

use crate::NOW;
use crate::keys::{key, node};

/// With nothing in it, and fresh for a day.
pub fn first_head(signers: SignersRef) -> Head {
    Head {
        version: 1,
        reverts: None,
        cause: Cause::Founding,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: None,
        previous: Vec::new(),
        recent: Vec::new(),
        record: BTreeMap::new(),
        mandates: Vec::new(),
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers,
        release: None,
        fleet: None,
    }
}

/// It speaks with the key of its name, from yesterday until tomorrow, for nobody.
pub fn mandate(gateway: &str) -> Mandate {
    Mandate {
        gateway: node(gateway),
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
