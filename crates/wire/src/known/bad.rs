//! Why something that is told of an org is not followed.

use identity::envelope::{BadEnvelope, Envelope};
use identity::head::BadHead;
use identity::signers::BrokenChain;
use identity::time::Timestamp;
use org::founding::BadFounding;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKnowledge {
    #[error(transparent)]
    Founding(#[from] BadFounding),
    #[error(transparent)]
    Signers(#[from] BrokenChain),
    #[error(transparent)]
    Head(#[from] BadHead),
    #[error("a step to other signers cannot be read")]
    Step(#[from] BadEnvelope),
    #[error("what is known of the org was written by a newer freehold: upgrade it on this machine")]
    Newer,
    #[error(
        "it was written before the first release of freehold, and is not read any more. Nothing was changed; found the org \
         anew, and let the machines join it"
    )]
    Older,
    #[error("the recovery keys have replaced the signers; this machine was told just now, and follows at {until}")]
    RecoveryWaits {
        until: Timestamp,
        /// Those that were offered.
        steps: Vec<Envelope>,
    },
    #[error(
        "two signer sets claim one place, and both were seen here within the delay of a recovery: nothing new is followed \
         until the signers of both, or the recovery keys, settle it"
    )]
    Frozen {
        /// Those that were offered.
        steps: Vec<Envelope>,
    },
    #[error(
        "two signer sets claim one place, or the recovery keys have settled that they did; this machine had gone by one of \
         them for longer than the delay of a recovery, and stays with it"
    )]
    Parted,
}
