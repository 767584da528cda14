//! What those know who know the org by hand: of this crate's own types, which a crate above could not make for its tests.

use identity::envelope::{Envelope, Payload};
use identity::head::Head;
use identity::id::OrgId;
use identity::signers::SignerSet;
use identity::time::Seconds;
pub(crate) use testorg::{NOW, key, quorum};

use crate::known::Known;

pub(crate) fn sealed<T: Payload>(org: Option<OrgId>, body: &T, by: &str) -> Envelope {
    testorg::sealed(org, body, &[by])
}

/// A head with nothing in it, by one of the signers.
pub(crate) fn head(set: &SignerSet, version: u64, by: &str) -> Envelope {
    let fresh_until = NOW + Seconds::DAY.times(30);
    sealed(Some(set.org), &Head { version, fresh_until, ..testorg::first_head(set.as_ref()) }, by)
}

/// The org `harbor`, in which `ann` signs, as it was founded.
pub(crate) fn known() -> Known {
    let founding = testorg::founding();
    let head = head(&founding.first_signers(), 1, "ann");
    Known::new(founding, &[], &head).unwrap()
}
