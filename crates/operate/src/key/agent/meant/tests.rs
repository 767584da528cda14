//! What an agent signs, and that it signs nothing else.

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
    let founding =
        preauth("application/vnd.freehold.founding+json", r#"{"plane":"mgmt","kind":"founding","schema":1,"body":{}}"#);
    assert_eq!(Purpose::Envelope.check(ORG, &founding), Err(NotMeant::OtherOrg));
}
