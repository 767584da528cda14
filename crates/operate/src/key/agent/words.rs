//! The words between a command and the agent: one line of JSON each way, then the connection ends.

use ground::secret::Secret;
use identity::id::OrgId;
use identity::key::PublicKey;
use identity::principal::{OrgName, SignerName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::key::agent::meant::Purpose;
use crate::key::token::uri::TokenUri;

/// The largest envelope in base64, and some words around it.
pub(crate) const MAX_LINE: usize = identity::envelope::MAX_PAYLOAD / 3 * 4 + (64 << 10);
/// The longest that keys are held.
pub const LONGEST: Seconds = Seconds::HOUR.times(12);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum KeyAgentRequest {
    Status,
    /// Hold these keys for so long.
    Hold {
        keys: Vec<Given>,
        seconds: Seconds,
    },
    Sign {
        key: PublicKey,
        purpose: Purpose,
        message: Bytes,
    },
    /// Forget all keys and end.
    Lock,
}

/// A key that is handed over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    pub org: OrgId,
    pub org_name: OrgName,
    pub signer: SignerName,
    pub material: Material,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Material {
    Seed(Secret),
    /// The agent logs in to the token itself, and forgets the PIN.
    Token {
        uri: Box<TokenUri>,
        key: PublicKey,
        pin: Option<Secret>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum KeyAgentAnswer {
    Status(KeyAgentStatus),
    Signature(Bytes),
    Locked,
    /// It is about to end and takes nothing any more.
    Ending,
    Refused {
        why: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAgentStatus {
    pub pid: u32,
    pub keys: Vec<HeldKey>,
}

/// What is told of a key that is held.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldKey {
    pub org: OrgId,
    pub org_name: OrgName,
    pub signer: SignerName,
    pub key: PublicKey,
    pub until: Timestamp,
    pub held_in: HeldIn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldIn {
    /// On a page that is not swapped out.
    LockedMemory,
    /// The system did not let the page be locked.
    Memory,
    /// On a token that is logged in.
    Token,
}
