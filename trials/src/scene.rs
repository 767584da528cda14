//! What those know who know the org by hand.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use identity::envelope::{Envelope, Payload};
use identity::head::Head;
use identity::text::Bytes;
use org::founding::{Founding, FoundingRecord};
pub use testorg::{NOW, first_head, founding, invite, key, mandate, node, quorum, record};
use wire::known::Known;

/// The same org, with this endpoint root.
pub fn founded_on(endpoint_root: Vec<u8>) -> Founding {
    let record = FoundingRecord { endpoint_root: Bytes(endpoint_root), ..record(quorum("ann")) };
    testorg::founded(&record, &["ann"])
}

/// The first head, with nothing in it.
pub fn head(founding: &Founding) -> Head {
    first_head(founding.first_signers().as_ref())
}

pub fn sealed<T: Payload>(founding: &Founding, body: &T, by: &str) -> Envelope {
    testorg::sealed(Some(founding.id), body, &[by])
}

/// Who knows this head, which `ann` signed.
pub fn known(founding: &Founding, head: &Head) -> Known {
    Known::new(founding.clone(), &[], &sealed(founding, head, "ann")).unwrap()
}
