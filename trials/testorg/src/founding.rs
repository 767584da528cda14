//! What founders sign.

use identity::signers::Quorum;
use identity::text::Bytes;
use identity::time::Seconds;
use org::founding::{Founding, FoundingRecord};

use crate::NOW;
use crate::keys::{quorum, sealed};

/// The org `harbor`, in which `ann` signs.
pub fn founding() -> Founding {
    founded(&record(quorum("ann")), &["ann"])
}

/// Of these signers, with roots that are none.
pub fn record(signers: Quorum) -> FoundingRecord {
    FoundingRecord {
        name: "harbor".parse().unwrap(),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(vec![2]),
        signers,
        recovery: quorum("safe"),
        recovery_delay: Seconds::DAY,
    }
}

pub fn founded(record: &FoundingRecord, by: &[&str]) -> Founding {
    Founding::open(sealed(None, record, by)).unwrap()
}
