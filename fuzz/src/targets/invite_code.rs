//! The invite code: what it says is what was written, also after a mutation behind its checksum.

use identity::id::{Digest, Fingerprint, InviteId, OrgId, sha256};
use identity::principal::Address;
use identity::signers::SignersRef;
use identity::text::{base64url, from_base64url};
use org::invite::code::{InviteCode, InviteSecret, InviteSeed, Ticket};

pub fn seeds() -> Vec<Vec<u8>> {
    let text = code(vec!["gw.example:7443".parse().expect("an address"), "[::1]:7443".parse().expect("an address")]);
    let text = text.encode();
    let body = from_base64url(&text["fh1_".len()..]).expect("base64url");
    let hosts = format!(
        ">gw.example:7443\n[fe80::1]:7443\n10.0.0.1:1\nwss://gw.example/door\nsocks5://127.0.0.1:9050/gw.onion:7443\n{}.example:65535",
        "a".repeat(63)
    );
    let mut all =
        vec![format!(" {}\n", text.as_str()).into_bytes(), body[..body.len() - 4].to_vec(), hosts.into_bytes()];
    for ticket in tickets() {
        let text = InviteCode { ticket, ..code(vec!["gw.example:7443".parse().expect("an address")]) }.encode();
        let body = from_base64url(&text["fh1_".len()..]).expect("base64url");
        all.push(body[..body.len() - 4].to_vec());
    }
    all
}

/// Every kind but the token, which `code` has.
fn tickets() -> [Ticket; 4] {
    let invite = InviteId([3; 16]);
    let hosted = Ticket::HostToken { invite, secret: InviteSecret::new([6; 16]) };
    [hosted, Ticket::Key { invite, seed: InviteSeed::new([5; 32]) }, Ticket::Machine { invite }, Ticket::Pattern]
}

fn code(gateways: Vec<Address>) -> InviteCode {
    InviteCode {
        org: OrgId([1; 32]),
        name: "harbor".parse().expect("a name"),
        signers_floor: SignersRef { version: 1, id: Digest([1; 32]) },
        head_floor: 7,
        endpoint_root: Fingerprint([2; 32]),
        gateways,
        ticket: Ticket::Token { invite: InviteId([3; 16]), secret: InviteSecret::new([4; 16]) },
    }
}

/// A text; or, after `>`, gateways to be written into a code; or what stands before a code's checksum.
pub fn check(data: &[u8]) -> bool {
    match (data.first(), std::str::from_utf8(data)) {
        (Some(b'>'), Ok(text)) => writes(&text[1..]),
        (_, Ok(text)) if text.trim().starts_with("fh1_") => reads(text),
        _ => {
            let check = sha256(data);
            reads(&format!("fh1_{}", base64url(&[data, &check[..4]].concat())))
        }
    }
}

fn writes(lines: &str) -> bool {
    let gateways: Vec<Address> = lines.lines().filter_map(|line| line.parse().ok()).collect();
    let code = code(gateways);
    let read: InviteCode = code.encode().parse().expect("what was written can be read");
    same(&read, &InviteCode { gateways: code.gateways.iter().take(16).cloned().collect(), ..code });
    !read.gateways.is_empty()
}

fn reads(text: &str) -> bool {
    let Ok(code) = text.parse::<InviteCode>() else {
        return false;
    };
    assert!(text.trim().len() <= 6 << 10 && code.gateways.len() <= 16, "a code is bounded");
    let written = code.encode();
    let read: InviteCode = written.parse().expect("and read again");
    same(&read, &code);
    assert_eq!(read.encode(), written, "one written form");
    let hides = match code.ticket {
        Ticket::Token { .. } | Ticket::HostToken { .. } => "InviteSecret(hidden)",
        Ticket::Key { .. } => "InviteSeed(hidden)",
        Ticket::Machine { .. } | Ticket::Pattern => "",
    };
    assert!(format!("{code:?}").contains(hides), "a secret must not be printed");
    // Any cut is noticed.
    for end in [0, 3, written.len() / 2, written.len() - 1] {
        assert!(written[..end].parse::<InviteCode>().is_err(), "cut at {end}");
    }
    true
}

fn same(one: &InviteCode, other: &InviteCode) {
    assert_eq!((one.org, &one.name, one.ticket.authority()), (other.org, &other.name, other.ticket.authority()));
    assert_eq!((one.signers_floor, one.head_floor), (other.signers_floor, other.head_floor));
    assert_eq!((one.endpoint_root, &one.gateways), (other.endpoint_root, &other.gateways));
    let public = |code: &InviteCode| code.ticket.key(code.org).map(|key| identity::key::Sign::public(&key));
    assert_eq!(public(one), public(other), "the same secret");
}
