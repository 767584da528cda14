//! What is carried by hand: a machine's request to be let in, and the bundle that is given to a machine.

use std::str::FromStr;

use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::invite::admission::SealKey;
use crate::invite::code::{BadCode, InviteCode};

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

/// As DNS has them.
const LONGEST_HOST: usize = 253;

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
        if named.hostname.len() > LONGEST_HOST || named.hostname.chars().any(char::is_control) {
            return Err(BadRequest::NotPlain);
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
    #[error("what it calls its machine is no plain host name")]
    NotPlain,
}

/// What a bundle holds: the code, the name that its machine takes, and what signers said of the org. As text, a line for
/// each, behind one that says so.
#[derive(Debug, Clone)]
pub struct JoinBundle {
    pub code: InviteCode,
    pub name: NodeName,
    /// JSON. Bundles in the form before have none: their machine hears it of the gateway.
    pub org: Option<String>,
}

/// What a bundle begins with, so that no other file can be taken for one.
pub const BUNDLE: &str = "freehold join bundle";

impl JoinBundle {
    pub fn encode(&self) -> Zeroizing<String> {
        let org = self.org.as_ref().map(|org| format!("{org}\n")).unwrap_or_default();
        Zeroizing::new(format!("{BUNDLE}\n{}\n{}\n{org}", self.code.encode().as_str(), self.name))
    }
}

impl FromStr for JoinBundle {
    type Err = BadCode;
    fn from_str(text: &str) -> Result<Self, BadCode> {
        // Those in the form before are named by their envelope, and not by a line of their own.
        let text = text.strip_prefix(BUNDLE).and_then(|rest| rest.strip_prefix('\n')).unwrap_or(text);
        let (code, rest) = text.trim_end().split_once('\n').ok_or(BadCode::Damaged)?;
        let (name, org) = rest.split_once('\n').map_or((rest, None), |(name, org)| (name, Some(org)));
        if org.is_some_and(|org| !org.starts_with('{') || org.contains('\n')) {
            return Err(BadCode::Damaged);
        }
        let name = name.parse().map_err(|_| BadCode::Damaged)?;
        Ok(Self { code: code.parse()?, name, org: org.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use identity::id::{Digest, Fingerprint, InviteId, OrgId};
    use identity::key::EdKey;
    use identity::signers::SignersRef;

    use super::*;
    use crate::invite::code::{InviteSeed, Ticket};

    fn bundle() -> JoinBundle {
        let code = InviteCode {
            org: OrgId([1; 32]),
            name: "harbor".parse().unwrap(),
            signers_floor: SignersRef { version: 1, id: Digest([1; 32]) },
            head_floor: 7,
            endpoint_root: Fingerprint([2; 32]),
            gateways: vec!["gw.example:7443".parse().unwrap()],
            ticket: Ticket::Key { invite: InviteId([3; 16]), seed: InviteSeed::new([4; 32]) },
        };
        JoinBundle { code, name: "web-1".parse().unwrap(), org: None }
    }

    #[test]
    fn a_bundle_reads_back_and_half_of_one_does_not() {
        let text = bundle().encode();
        let read: JoinBundle = text.parse().unwrap();
        assert_eq!((read.encode(), read.name), (bundle().encode(), bundle().name));
        let before: JoinBundle = text.strip_prefix("freehold join bundle\n").unwrap().parse().unwrap();
        assert_eq!(before.encode(), text, "the two lines of the form before");
        let whole = JoinBundle { org: Some("{}".to_owned()), ..bundle() };
        let read: JoinBundle = whole.encode().parse().unwrap();
        assert_eq!((read.org.as_deref(), read.encode()), (Some("{}"), whole.encode()));
        let code = bundle().code.encode();
        let named = |name: &str| format!("{}\n{name}\n", code.as_str());
        for bad in [
            String::new(),
            code.to_string(),
            format!("{BUNDLE}\n{}", code.as_str()),
            format!("{BUNDLE}\n{BUNDLE}\n{}\nweb-1", code.as_str()),
            named(""),
            named("Not A Name"),
            named("web-1\nmore"),
            named("web-1\n{}\n{}"),
            "x\nweb-1".to_owned(),
        ] {
            assert!(bad.parse::<JoinBundle>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_must_be_signed_by_a_node_key() {
        let signer = EdKey::from_seed(&[9; 32]);
        let request = JoinRequest {
            node_key: signer.public(),
            seal_key: SealKey([1; 32]),
            name: "web-1".parse().unwrap(),
            hostname: "web-1".to_owned(),
            made_at: Timestamp::from_unix(1_800_000_000),
        };
        // Of whatever kind the key is that signs for it: it must be one that a node can have.
        assert_eq!(JoinRequest::open(&request.seal(&signer).unwrap()), Err(BadRequest::NotANodeKey));
    }
}
