//! Laws that every signed object keeps.

use std::collections::BTreeSet;
use std::fmt::Debug;

use identity::envelope::{Envelope, MAX_PAYLOAD, Payload};
use identity::id::OrgId;
use serde_json::Value;

use crate::cast;
use crate::sealing::payload_of;

/// What was read, written and read again is the same, and is then written the same.
pub fn reads_as_written<T: Payload + PartialEq + Debug>(body: &T, org: Option<OrgId>) {
    let written = Envelope::seal(org, body).expect("what was read can be written");
    let read: T = written.peek(org).expect("what was written can be read");
    assert_eq!(read, *body, "read, written, read");
    assert_eq!(Envelope::seal(org, &read).expect("again"), written, "one written form");
}

/// An envelope has one written form, and a name that does not depend on who signed it.
pub fn is_an_envelope(envelope: &Envelope, json: Option<&[u8]>) {
    let written = serde_json::to_vec(envelope).expect("an envelope can be written");
    assert_eq!(&serde_json::from_slice::<Envelope>(&written).expect("and read again"), envelope);
    if let Some(json) = json {
        let as_sent: Value = serde_json::from_slice(json).expect("an envelope is JSON");
        assert_eq!(serde_json::to_value(envelope).expect("JSON"), as_sent, "nothing is lost or put right in silence");
    }
    let bare = envelope.kept(&BTreeSet::new());
    let more = envelope.clone().signed(&cast::ed("safe")).expect("anybody can sign");
    assert_eq!(bare.digest(), envelope.digest());
    assert_eq!(more.digest(), envelope.digest());
    assert!(more.signers_among(&BTreeSet::from([cast::public("safe")])).len() <= 1);
}

/// Opens as `T` only under its own kind, its own org, within bounds, and if written so.
pub fn opens_only_as_itself<T: Payload + PartialEq + Debug>(envelope: &Envelope, org: Option<OrgId>) -> Option<T> {
    let body: T = envelope.peek(org).ok()?;
    let payload = payload_of(envelope);
    let frame: Value = serde_json::from_slice(&payload).expect("what opens is JSON");
    assert_eq!((envelope.kind(), frame["kind"].as_str()), (T::KIND, Some(T::KIND)));
    assert_eq!(frame["schema"].as_u64(), Some(u64::from(T::SCHEMA)));
    assert_eq!(frame["plane"].as_str(), Some("mgmt"));
    assert_eq!(frame["org"].as_str().map(str::to_owned), org.map(|org| org.to_string()));
    assert!(payload.len() <= MAX_PAYLOAD);
    assert!(envelope.peek::<T>(Some(OrgId([0; 32]))).is_err(), "it opened for two orgs");
    reads_as_written(&body, org);
    Some(body)
}
