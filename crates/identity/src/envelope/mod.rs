//! The one envelope of all signed objects: DSSE, bytes kept as received, distinct keys counted.

mod signatures;

pub use signatures::Signatures;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::envelope::signatures::Signature;
use crate::id::{Digest, OrgId, sha256};
use crate::key::{BadKey, BadSignature, PublicKey, Sign};
use crate::text::Bytes;

type Verify = fn(&PublicKey, &[u8], &[u8]) -> Result<(), BadSignature>;

/// No object of ours comes near this; what does is not ours.
pub const MAX_PAYLOAD: usize = 4 << 20;
const MAX_SIGNATURES: usize = 64;

/// What can be put into an envelope. `KIND` and `SCHEMA` are written into the payload and checked on opening.
pub trait Payload: Serialize + DeserializeOwned {
    const KIND: &'static str;
    const SCHEMA: u32;
}

/// A signed object: payload type, payload bytes, signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Envelope {
    payload_type: String,
    payload: Bytes,
    signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEnvelope {
    #[error("expected a signed `{expected}`, got `{found}`")]
    OtherKind { expected: &'static str, found: String },
    #[error("this `{kind}` has schema {found}; this program knows up to {known}: upgrade freehold on this machine")]
    NewerSchema { kind: &'static str, found: u32, known: u32 },
    #[error("the signed `{kind}` belongs to another org ({found})")]
    OtherOrg { kind: &'static str, found: String },
    #[error("the signed `{kind}` is of another plane")]
    OtherPlane { kind: &'static str },
    #[error("the signed `{kind}` cannot be read: {why}")]
    Malformed { kind: &'static str, why: String },
    #[error("the signed `{kind}` is too large")]
    TooLarge { kind: &'static str },
    #[error("the `{kind}` carries {found} of the {needed} signatures that it needs{}", in_words(*others))]
    NotEnoughSignatures {
        kind: &'static str,
        found: usize,
        needed: usize,
        /// Keys that signed, or seem to, and whose word does not count.
        others: usize,
    },
}

fn in_words(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} that do not count") }
}

/// What stands around every body.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<T> {
    /// The org's id; absent only in the founding record, whose digest it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    org: Option<OrgId>,
    plane: Plane,
    kind: String,
    schema: u32,
    body: T,
}

/// Checked first, so that a newer schema is named as such even if its body fails to parse.
#[derive(Deserialize)]
struct Label {
    #[serde(default)]
    org: Option<OrgId>,
    plane: Plane,
    kind: String,
    schema: u32,
}

impl Label {
    fn check<T: Payload>(self, org: Option<OrgId>) -> Result<(), BadEnvelope> {
        let kind = T::KIND;
        if self.kind != kind {
            return Err(BadEnvelope::OtherKind { expected: kind, found: self.kind.chars().take(40).collect() });
        }
        if self.org != org {
            let found = self.org.map_or_else(|| "none named".to_owned(), |id| id.to_string());
            return Err(BadEnvelope::OtherOrg { kind, found });
        }
        match self.plane {
            Plane::Mgmt => {}
            Plane::Ctrl => return Err(BadEnvelope::OtherPlane { kind }),
        }
        if self.schema > T::SCHEMA {
            return Err(BadEnvelope::NewerSchema { kind, found: self.schema, known: T::SCHEMA });
        }
        if self.schema < T::SCHEMA {
            return Err(BadEnvelope::Malformed { kind, why: format!("schema {} is no longer read", self.schema) });
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Plane {
    Mgmt,
    Ctrl,
}

impl Envelope {
    /// Wraps a body, unsigned.
    pub fn seal<T: Payload>(org: Option<OrgId>, body: &T) -> Result<Self, BadEnvelope> {
        let frame = Frame { org, plane: Plane::Mgmt, kind: T::KIND.to_owned(), schema: T::SCHEMA, body };
        let payload =
            serde_json::to_vec(&frame).map_err(|why| BadEnvelope::Malformed { kind: T::KIND, why: why.to_string() })?;
        Ok(Self { payload_type: payload_type::<T>(), payload: Bytes(payload), signatures: Vec::new() })
    }

    /// Adds a signature; a second one by the same key replaces the first.
    pub fn sign(&mut self, key: &dyn Sign) -> Result<(), BadKey> {
        let keyid = key.public();
        let sig = Bytes(key.sign(&self.preauth())?);
        self.signatures.retain(|signature| signature.keyid != keyid);
        self.signatures.push(Signature { keyid, sig });
        Ok(())
    }

    #[must_use = "an unsigned envelope means nothing"]
    pub fn signed(mut self, key: &dyn Sign) -> Result<Self, BadKey> {
        self.sign(key)?;
        Ok(self)
    }

    /// The object's name: independent of who has signed it.
    pub fn digest(&self) -> Digest {
        Digest(sha256(&self.preauth()))
    }

    pub fn kind(&self) -> &str {
        self.payload_type
            .strip_prefix("application/vnd.freehold.")
            .and_then(|rest| rest.strip_suffix("+json"))
            .unwrap_or(&self.payload_type)
    }

    /// A copy with only those signatures that hold and are by one of `keys`.
    #[must_use]
    pub fn kept(&self, keys: &BTreeSet<PublicKey>) -> Self {
        self.kept_if(keys, PublicKey::verify)
    }

    fn kept_if(&self, keys: &BTreeSet<PublicKey>, verify: Verify) -> Self {
        let message = self.preauth();
        let holds = |signature: &&Signature| {
            keys.contains(&signature.keyid) && verify(&signature.keyid, &message, &signature.sig.0).is_ok()
        };
        let signatures = self.signatures.iter().take(MAX_SIGNATURES).filter(holds).cloned().collect();
        let mut kept = Self { payload_type: self.payload_type.clone(), payload: self.payload.clone(), signatures };
        kept.settle();
        kept
    }

    /// Opens only if every one of `keys` has signed, and gives a copy without anything else: each signature is checked
    /// once. For what nobody brings twice.
    pub fn open_kept<T: Payload>(
        &self,
        org: Option<OrgId>,
        keys: &BTreeSet<PublicKey>,
    ) -> Result<(T, Self), BadEnvelope> {
        self.check_type::<T>()?;
        let kept = self.kept_if(keys, PublicKey::verify_anew);
        let (found, needed) = (kept.signatures.len(), keys.len().max(1));
        if found < needed {
            let others = self.other_signers(found);
            return Err(BadEnvelope::NotEnoughSignatures { kind: T::KIND, found, needed, others });
        }
        Ok((kept.peek(org)?, kept))
    }

    /// Takes over the signatures of another copy of the same object. Law: in whatever order copies are merged, and
    /// however often, the result is the same.
    pub fn merge(&mut self, other: &Self) {
        self.signatures.extend(other.signatures.iter().cloned());
        self.settle();
    }

    /// The same for a copy that anybody may have sent: only signatures that hold are kept, so that a copy can add to what
    /// is known and take nothing away. If there are too many, those of `known` keys come first.
    pub fn merge_holding(&mut self, other: &Self, known: &BTreeSet<PublicKey>) {
        let message = self.preauth();
        self.signatures.extend(other.signatures.iter().cloned());
        self.signatures.retain(|signature| signature.keyid.verify(&message, &signature.sig.0).is_ok());
        self.settle_within(known);
    }

    /// Of whoever has looked at each when it came: whose of these keys' signatures are kept.
    pub fn kept_of<'k>(&self, keys: impl IntoIterator<Item = &'k PublicKey>) -> usize {
        keys.into_iter().filter(|key| self.signatures.iter().any(|signature| signature.keyid == **key)).count()
    }

    /// Nothing that another copy of the same object would add.
    pub fn has_signatures_of(&self, other: &Self) -> bool {
        other.signatures.iter().all(|signature| self.signatures.contains(signature))
    }

    fn settle(&mut self) {
        self.signatures.sort();
        self.signatures.dedup_by_key(|signature| signature.keyid);
    }

    /// More than the most would not be read again: those of `known` keys come first.
    fn settle_within(&mut self, known: &BTreeSet<PublicKey>) {
        self.settle();
        if self.signatures.len() > MAX_SIGNATURES {
            self.signatures.sort_by_key(|signature| !known.contains(&signature.keyid));
            self.signatures.truncate(MAX_SIGNATURES);
            self.signatures.sort();
        }
    }

    /// Opens only if every one of `keys` has signed.
    pub fn open_signed_by<T: Payload>(&self, org: Option<OrgId>, keys: &[PublicKey]) -> Result<T, BadEnvelope> {
        let wanted: BTreeSet<PublicKey> = keys.iter().copied().collect();
        self.open_with_threshold(org, &wanted, wanted.len())
    }

    /// Opens only if at least `threshold` distinct keys of `keys` have signed.
    pub fn open_with_threshold<T: Payload>(
        &self,
        org: Option<OrgId>,
        keys: &BTreeSet<PublicKey>,
        threshold: usize,
    ) -> Result<T, BadEnvelope> {
        self.check_type::<T>()?;
        let found = self.signers_among(keys).len();
        // A threshold of nothing would be met by anybody.
        if threshold == 0 || found < threshold {
            let others = self.other_signers(found);
            return Err(BadEnvelope::NotEnoughSignatures { kind: T::KIND, found, needed: threshold.max(1), others });
        }
        self.peek(org)
    }

    /// How many keys are named beside those that count.
    fn other_signers(&self, counted: usize) -> usize {
        let keys: BTreeSet<_> = self.signatures.iter().map(|signature| signature.keyid).collect();
        keys.len().saturating_sub(counted)
    }

    /// The distinct keys of `keys` whose signature holds.
    pub fn signers_among(&self, keys: &BTreeSet<PublicKey>) -> BTreeSet<PublicKey> {
        let message = self.preauth();
        self.signatures
            .iter()
            .take(MAX_SIGNATURES)
            .filter(|signature| keys.contains(&signature.keyid))
            .filter(|signature| signature.keyid.verify(&message, &signature.sig.0).is_ok())
            .map(|signature| signature.keyid)
            .collect()
    }

    /// Reads the body without believing it: to learn which keys it should be checked against.
    pub fn peek<T: Payload>(&self, org: Option<OrgId>) -> Result<T, BadEnvelope> {
        let kind = T::KIND;
        self.check_type::<T>()?;
        let malformed = |why: serde_json::Error| BadEnvelope::Malformed { kind, why: why.to_string() };
        let frame = serde_json::from_slice::<Frame<T>>(&self.payload.0);
        // What does not parse may be of another kind or of a newer schema: then that is what must be said.
        let label = match &frame {
            Ok(frame) => Label { org: frame.org, plane: frame.plane, kind: frame.kind.clone(), schema: frame.schema },
            Err(_) => serde_json::from_slice(&self.payload.0).map_err(malformed)?,
        };
        label.check::<T>(org)?;
        Ok(frame.map_err(malformed)?.body)
    }

    fn check_type<T: Payload>(&self) -> Result<(), BadEnvelope> {
        if self.payload_type != payload_type::<T>() {
            return Err(BadEnvelope::OtherKind { expected: T::KIND, found: self.kind().chars().take(40).collect() });
        }
        if self.payload.0.len() > MAX_PAYLOAD || self.signatures.len() > MAX_SIGNATURES {
            return Err(BadEnvelope::TooLarge { kind: T::KIND });
        }
        Ok(())
    }

    /// DSSE's pre-authentication encoding: what is signed and hashed.
    fn preauth(&self) -> Vec<u8> {
        let (kind, body) = (self.payload_type.as_bytes(), &self.payload.0);
        let mut out = Vec::with_capacity(body.len() + kind.len() + 40);
        out.extend_from_slice(format!("DSSEv1 {} ", kind.len()).as_bytes());
        out.extend_from_slice(kind);
        out.extend_from_slice(format!(" {} ", body.len()).as_bytes());
        out.extend_from_slice(body);
        out
    }
}

/// What bytes that are to be signed say of themselves. For who signs for others, and must not sign just anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    pub kind: String,
    pub org: Option<OrgId>,
}

impl Addressed {
    /// Nothing unless the bytes are the pre-authentication encoding of an object of ours.
    pub fn read(preauth: &[u8]) -> Option<Self> {
        let rest = preauth.strip_prefix(b"DSSEv1 ")?;
        let (payload_type, rest) = sized(rest)?;
        let (payload, rest) = sized(rest.strip_prefix(b" ")?)?;
        let envelope = Envelope {
            payload_type: std::str::from_utf8(payload_type).ok()?.to_owned(),
            payload: Bytes(payload.to_vec()),
            signatures: Vec::new(),
        };
        let label: Label = serde_json::from_slice(payload).ok()?;
        let ours = envelope.payload_type == format!("application/vnd.freehold.{}+json", label.kind);
        let exact = rest.is_empty() && payload.len() <= MAX_PAYLOAD && envelope.preauth() == preauth;
        (ours && exact && label.plane == Plane::Mgmt).then_some(Self { kind: label.kind, org: label.org })
    }
}

/// A length, a space, and so many bytes; then what follows.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(12).position(|byte| *byte == b' ')?;
    let (length, rest) = bytes.split_at_checked(space)?;
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    rest.strip_prefix(b" ")?.split_at_checked(length)
}

fn payload_type<T: Payload>() -> String {
    format!("application/vnd.freehold.{}+json", T::KIND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::EdKey;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        text: String,
    }
    impl Payload for Note {
        const KIND: &'static str = "note";
        const SCHEMA: u32 = 1;
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct NewerNote {
        text: String,
        more: u32,
    }
    impl Payload for NewerNote {
        const KIND: &'static str = "note";
        const SCHEMA: u32 = 2;
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Other {}
    impl Payload for Other {
        const KIND: &'static str = "other";
        const SCHEMA: u32 = 1;
    }

    const ORG: OrgId = OrgId([7; 32]);

    fn key(n: u8) -> EdKey {
        EdKey::from_seed(&[n; 32])
    }
    fn note() -> Envelope {
        Envelope::seal(Some(ORG), &Note { text: "hi".into() }).unwrap()
    }
    fn keys(of: &[u8]) -> BTreeSet<PublicKey> {
        of.iter().map(|n| key(*n).public()).collect()
    }

    #[test]
    fn a_threshold_counts_distinct_keys_never_signatures() {
        let mut envelope = note().signed(&key(1)).unwrap();
        let again = envelope.signatures[0].clone();
        envelope.signatures.push(again);
        let opened: Result<Note, _> = envelope.open_with_threshold(Some(ORG), &keys(&[1, 2, 3]), 2);
        assert_eq!(opened, Err(BadEnvelope::NotEnoughSignatures { kind: "note", found: 1, needed: 2, others: 0 }));
        envelope.sign(&key(2)).unwrap();
        let opened: Result<Note, _> = envelope.open_with_threshold(Some(ORG), &keys(&[1, 2, 3]), 2);
        assert_eq!(opened, Ok(Note { text: "hi".into() }));
    }

    #[test]
    fn what_is_to_be_signed_says_what_it_is_and_nothing_near_it_does() {
        let bytes = note().preauth();
        assert_eq!(Addressed::read(&bytes), Some(Addressed { kind: "note".to_owned(), org: Some(ORG) }));
        for cut in 0..bytes.len() {
            assert_eq!(Addressed::read(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Addressed::read(&[&bytes[..], b"x"].concat()), None);
    }

    #[test]
    fn a_threshold_of_nothing_is_never_met() {
        let unsigned = note();
        assert!(unsigned.open_with_threshold::<Note>(Some(ORG), &BTreeSet::new(), 0).is_err());
        assert!(unsigned.open_signed_by::<Note>(Some(ORG), &[]).is_err());
    }

    #[test]
    fn strangers_signatures_and_changed_bytes_count_for_nothing() {
        let stranger = note().signed(&key(9)).unwrap();
        assert!(stranger.open_with_threshold::<Note>(Some(ORG), &keys(&[1]), 1).is_err());
        let mut changed = note().signed(&key(1)).unwrap();
        changed.payload.0.push(b' ');
        assert!(changed.open_with_threshold::<Note>(Some(ORG), &keys(&[1]), 1).is_err());
    }

    #[test]
    fn what_is_kept_is_what_was_checked() {
        let mut envelope = note().signed(&key(1)).unwrap();
        let clean = envelope.clone();
        envelope.sign(&key(9)).unwrap();
        let mut false_one = envelope.signatures[0].clone();
        false_one.sig.0.reverse();
        envelope.signatures.insert(0, false_one);
        let opened: Result<(Note, _), _> = envelope.open_kept(Some(ORG), &keys(&[1]));
        assert_eq!(opened, Ok((Note { text: "hi".into() }, clean)));
        assert!(envelope.open_kept::<Note>(Some(ORG), &keys(&[1, 2])).is_err(), "one has not signed");
        assert!(envelope.open_kept::<Note>(Some(ORG), &keys(&[])).is_err(), "nobody is asked for");
        assert!(envelope.open_kept::<Other>(Some(ORG), &keys(&[1])).is_err(), "another kind");
    }

    #[test]
    fn kind_org_and_schema_are_checked() {
        let envelope = note().signed(&key(1)).unwrap();
        let signed_by = [key(1).public()];
        assert!(matches!(
            envelope.open_signed_by::<Other>(Some(ORG), &signed_by),
            Err(BadEnvelope::OtherKind { expected: "other", .. })
        ));
        assert!(matches!(
            envelope.open_signed_by::<Note>(Some(OrgId([8; 32])), &signed_by),
            Err(BadEnvelope::OtherOrg { .. })
        ));
        let newer = Envelope::seal(Some(ORG), &NewerNote { text: "hi".into(), more: 1 }).unwrap();
        let newer = newer.signed(&key(1)).unwrap();
        assert!(matches!(
            newer.open_signed_by::<Note>(Some(ORG), &signed_by),
            Err(BadEnvelope::NewerSchema { found: 2, known: 1, .. })
        ));
    }

    #[test]
    fn unknown_fields_are_refused_inside_and_out() {
        let mut json = serde_json::to_value(note()).unwrap();
        json["extra"] = 1.into();
        assert!(serde_json::from_value::<Envelope>(json).is_err());
    }

    #[test]
    fn the_digest_does_not_depend_on_signatures() {
        assert_eq!(note().digest(), note().signed(&key(1)).unwrap().digest());
    }

    #[test]
    fn copies_merge_to_the_same_in_any_order_and_strangers_are_dropped() {
        let copy = |by: &[u8]| {
            let mut envelope = note();
            for n in by {
                envelope.sign(&key(*n)).unwrap();
            }
            envelope.kept(&keys(&[1, 2, 3]))
        };
        let (one, other) = (copy(&[3, 1, 9]), copy(&[9, 2, 1]));
        let (mut there, mut back) = (one.clone(), other.clone());
        there.merge(&other);
        there.merge(&other);
        back.merge(&one);
        assert_eq!(there, back);
        assert_eq!((there.signatures.len(), there.signers_among(&keys(&[1, 2, 3]))), (3, keys(&[1, 2, 3])));
    }

    #[test]
    fn the_preauthentication_encoding_is_dsses() {
        let envelope = Envelope {
            payload_type: "http://example.com/HelloWorld".into(),
            payload: Bytes(b"hello world".to_vec()),
            signatures: vec![],
        };
        assert_eq!(envelope.preauth(), b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
