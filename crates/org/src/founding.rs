//! The founding record (root of trust): both roots, first signers, recovery set. Its digest is the org's id.

use aws_lc_rs::hkdf;
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::id::{Digest, Fingerprint, OrgId};
use identity::key::EdKey;
use identity::principal::OrgName;
use identity::signers::{Quorum, SignerSet};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundingRecord {
    pub name: OrgName,
    pub founded_at: Timestamp,
    /// DER of the first root of each domain.
    pub identity_root: Bytes,
    pub endpoint_root: Bytes,
    pub signers: Quorum,
    pub recovery: Quorum,
    /// How long a recovery waits before it takes effect, counted by each node from its own first sight.
    pub recovery_delay: Seconds,
}

impl Payload for FoundingRecord {
    const KIND: &'static str = "founding";
    const SCHEMA: u32 = 1;
}

/// A founding record that was checked against itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founding {
    pub id: OrgId,
    pub record: FoundingRecord,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFounding {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("this is the founding record of another org: its id is {found}, not {expected}")]
    OtherOrg { expected: OrgId, found: OrgId },
}

impl Founding {
    /// Opens a record signed by its own first signer set: they really hold those keys.
    pub fn open(envelope: Envelope) -> Result<Self, BadFounding> {
        let record: FoundingRecord = envelope.peek(None)?;
        let record: FoundingRecord =
            envelope.open_with_threshold(None, &record.signers.keys(), record.signers.threshold())?;
        Ok(Self { id: OrgId(envelope.digest().0), record, envelope })
    }

    /// The same, for one who knows the org's id beforehand.
    pub fn open_expecting(envelope: Envelope, expected: OrgId) -> Result<Self, BadFounding> {
        let found = OrgId(envelope.digest().0);
        if found != expected {
            return Err(BadFounding::OtherOrg { expected, found });
        }
        Self::open(envelope)
    }

    pub fn first_signers(&self) -> SignerSet {
        SignerSet { org: self.id, version: 1, id: Digest(self.id.0), quorum: self.record.signers.clone() }
    }

    pub fn endpoint_fingerprint(&self) -> Fingerprint {
        Fingerprint::of_certificate(&self.record.endpoint_root.0)
    }
}

/// The recovery key that a printed phrase stands for.
pub fn recovery_key(entropy: &[u8; 16]) -> EdKey {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"freehold recovery v1").extract(entropy);
    let mut seed = Zeroizing::new([0; 32]);
    // Filling 32 bytes from HKDF-SHA256 cannot fail.
    if let Ok(okm) = prk.expand(&[], hkdf::HKDF_SHA256) {
        let _ = okm.fill(&mut seed[..]);
    }
    EdKey::from_seed(&seed)
}
