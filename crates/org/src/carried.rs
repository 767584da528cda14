//! What is carried by hand: a machine's request to be let in, and the bundle that is given to a machine.

use std::str::FromStr;

use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::admission::SealKey;
use crate::code::{BadCode, InviteCode};

/// Public things only, signed by the node key. It belongs to no org: whoever signs it decides which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    pub node_key: PublicKey,
    pub seal_key: SealKey,
    pub name: NodeName,
    /// What the machine is called where it stands. Nothing of it is proven.
    pub hostname: String,
    pub made_at: Timestamp,
}

impl Payload for JoinRequest {
    const KIND: &'static str = "join-request";
    const SCHEMA: u32 = 1;
}

impl JoinRequest {
    pub fn seal(&self, node_key: &dyn Sign) -> Result<Envelope, BadRequest> {
        Ok(Envelope::seal(None, self)?.signed(node_key)?)
    }

    /// Whoever wrote it holds the node key, which is one.
    pub fn open(envelope: &Envelope) -> Result<Self, BadRequest> {
        let named: Self = envelope.peek(None)?;
        if !matches!(named.node_key, PublicKey::P256(_)) {
            return Err(BadRequest::NotANodeKey);
        }
        Ok(envelope.open_signed_by(None, &[named.node_key])?)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("the node key is not P-256")]
    NotANodeKey,
}

/// What a bundle holds: the code, and the name that its machine takes. As text, a line for each.
#[derive(Debug, Clone)]
pub struct JoinBundle {
    pub code: InviteCode,
    pub name: NodeName,
}

/// What is sealed into a bundle's file, so that no other sealed file can be taken for one.
pub const BUNDLE: &str = "freehold join bundle";

impl JoinBundle {
    pub fn encode(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}\n{}\n", self.code.encode().as_str(), self.name))
    }
}

impl FromStr for JoinBundle {
    type Err = BadCode;
    fn from_str(text: &str) -> Result<Self, BadCode> {
        let (code, name) = text.trim_end().split_once('\n').ok_or(BadCode::Damaged)?;
        Ok(Self { code: code.parse()?, name: name.parse().map_err(|_| BadCode::Damaged)? })
    }
}
