//! A step from one signer set to the next, read and not yet believed; and when each was first seen here.

use std::collections::BTreeMap;

use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::signers::{Quorum, Recovery, SignerSet, Succession, Word};
use identity::time::Timestamp;

/// When this replica first saw each step, by the step's digest. On disk; it never moves.
pub type Sights = BTreeMap<Digest, Timestamp>;

/// Signer sets to which signatures lead from the founders', whatever became of them, by their ids.
pub type Sets = BTreeMap<Digest, SignerSet>;

/// A succession or a recovery. Whether it counts depends on the set that it would follow: `signers` asks that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerStep {
    pub digest: Digest,
    pub envelope: Envelope,
    /// Whose signatures it needs.
    pub word: Word,
    pub previous: Digest,
    /// Rivals that it follows, too.
    pub also: Vec<Digest>,
    pub to: SignerSet,
    /// The head that stands in until the new set has signed one.
    pub head: Option<Digest>,
    /// It ends a freeze.
    pub settles: bool,
}

/// A set has few rivals.
const MOST_RIVALS: usize = 8;

impl SignerStep {
    pub fn read(org: OrgId, envelope: &Envelope) -> Result<Self, BadEnvelope> {
        let (digest, envelope) = (envelope.digest(), envelope.clone());
        if envelope.kind() == Recovery::KIND {
            let body: Recovery = envelope.peek(Some(org))?;
            let to = SignerSet::later(org, body.version, body.quorum);
            let (previous, head, settles) = (body.previous, body.head, body.settles);
            return Ok(Self { digest, envelope, word: Word::Recovery, previous, also: Vec::new(), to, head, settles });
        }
        let body: Succession = envelope.peek(Some(org))?;
        if body.also.len() > MOST_RIVALS {
            return Err(BadEnvelope::TooLarge { kind: Succession::KIND });
        }
        let to = SignerSet::later(org, body.version, body.quorum);
        let (previous, also, head) = (body.previous, body.also, body.head);
        Ok(Self { digest, envelope, word: Word::Signers, previous, also, to, head, settles: false })
    }

    /// The sets that it follows, by their ids.
    pub fn follows(&self) -> impl Iterator<Item = Digest> {
        std::iter::once(self.previous).chain(self.also.iter().copied())
    }

    /// By one; by two out of a freeze, whose rivals have the place between.
    pub(super) fn is_numbered_after(&self, set: &SignerSet) -> bool {
        let (one_on, two_on) = (set.version.checked_add(1), set.version.checked_add(2));
        let out = self.settles || !self.also.is_empty();
        one_on == Some(self.to.version) || (out && two_on == Some(self.to.version))
    }

    /// A replica keeps no signature that does not hold.
    pub(super) fn is_signed_by(&self, quorum: &Quorum) -> bool {
        self.envelope.kept_of(&quorum.keys()) >= quorum.threshold()
    }

    pub(super) fn brings_back(&self, gone: &[PublicKey]) -> bool {
        self.to.quorum.signers().iter().any(|signer| gone.contains(&signer.key))
    }
}
