//! What an agent signs: an object of the key's own org, or an operator's call. It is no oracle for other bytes.

use identity::envelope::Meant;
use identity::id::OrgId;
use serde::{Deserialize, Serialize};
use wire::control::SignedCall;

/// What the asker says that it wants signed; the bytes must bear it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Envelope,
    Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotMeant {
    #[error("an agent signs objects of its org and operators' calls, and nothing else")]
    OtherBytes,
    #[error("this object belongs to another org than the key")]
    OtherOrg,
}

impl Purpose {
    /// What the bytes are for, if an agent may sign such bytes at all.
    pub fn of(message: &[u8]) -> Option<Self> {
        if SignedCall::is_message(message) {
            return Some(Self::Call);
        }
        Meant::read(message).map(|_| Self::Envelope)
    }

    /// Whether a key of `org` may sign these bytes for this purpose.
    pub fn check(self, org: OrgId, message: &[u8]) -> Result<(), NotMeant> {
        match self {
            Self::Call if SignedCall::is_message(message) => Ok(()),
            Self::Call => Err(NotMeant::OtherBytes),
            Self::Envelope => match Meant::read(message) {
                None => Err(NotMeant::OtherBytes),
                Some(meant) if meant.org == Some(org) => Ok(()),
                Some(_) => Err(NotMeant::OtherOrg),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use identity::id::sha256;

    use super::*;

    const ORG: OrgId = OrgId([7; 32]);

    fn preauth(payload_type: &str, payload: &str) -> Vec<u8> {
        format!("DSSEv1 {} {payload_type} {} {payload}", payload_type.len(), payload.len()).into_bytes()
    }

    fn head_of(org: OrgId) -> String {
        format!(r#"{{"org":"{org}","plane":"mgmt","kind":"head","schema":1,"body":{{}}}}"#)
    }

    const HEAD: &str = "application/vnd.freehold.head+json";

    #[test]
    fn objects_of_the_org_and_calls_are_signed() {
        let head = preauth(HEAD, &head_of(ORG));
        assert_eq!(Purpose::of(&head), Some(Purpose::Envelope));
        assert_eq!(Purpose::Envelope.check(ORG, &head), Ok(()));
        let call = SignedCall::message(&[1; 32], b"{}");
        assert_eq!(Purpose::of(&call), Some(Purpose::Call));
        assert_eq!(Purpose::Call.check(ORG, &call), Ok(()));
    }

    #[test]
    fn nothing_else_is_signed() {
        let other_kind = head_of(ORG).replace("\"head\"", "\"invite\"");
        let other_plane = head_of(ORG).replace("mgmt", "ctrl");
        let mut longer = preauth(HEAD, &head_of(ORG));
        longer.push(b' ');
        let call = SignedCall::message(&[1; 32], b"{}");
        let zeros = String::from_utf8(preauth(HEAD, &head_of(ORG))).unwrap().replacen("DSSEv1 34", "DSSEv1 034", 1);
        let refused: [&[u8]; 11] = [
            b"",
            b"DSSEv1 ",
            b"DSSEv1 99999999999999999999 x",
            b"anything",
            &sha256(b"a digest"),
            &preauth("text/plain", &head_of(ORG)),
            &preauth(HEAD, &other_kind),
            &preauth(HEAD, &other_plane),
            &longer,
            &call[1..],
            zeros.as_bytes(),
        ];
        for bytes in refused {
            assert_eq!(Purpose::of(bytes), None, "{}", String::from_utf8_lossy(bytes));
            for purpose in [Purpose::Envelope, Purpose::Call] {
                assert_eq!(purpose.check(ORG, bytes), Err(NotMeant::OtherBytes));
            }
        }
        assert_eq!(Purpose::Envelope.check(ORG, &call), Err(NotMeant::OtherBytes));
        assert_eq!(Purpose::Call.check(ORG, &preauth(HEAD, &head_of(ORG))), Err(NotMeant::OtherBytes));
    }

    #[test]
    fn objects_of_another_org_are_not_signed() {
        let other = preauth(HEAD, &head_of(OrgId([8; 32])));
        assert_eq!(Purpose::Envelope.check(ORG, &other), Err(NotMeant::OtherOrg));
        let founding = preauth(
            "application/vnd.freehold.founding+json",
            r#"{"plane":"mgmt","kind":"founding","schema":1,"body":{}}"#,
        );
        assert_eq!(Purpose::Envelope.check(ORG, &founding), Err(NotMeant::OtherOrg));
    }
}
