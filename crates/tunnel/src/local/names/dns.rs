//! DNS (RFC 1035) for names of services: one question, answered from a table. No recursion, and nothing but our own zone.
//!
//! | question | answer |
//! |---|---|
//! | a service's name, A | its address of loopback |
//! | a service's name, another type | no data: AAAA too, since all addresses are of version 4 |
//! | `<org>.internal`, or a node's name below which there are services | no data |
//! | another name below `<org>.internal` | NXDOMAIN |
//! | any other name, or another class than IN | REFUSED |
//! | not a plain query | NOTIMP; FORMERR if it cannot be read |
//! | an answer, or less than a header | silence |
//!
//! An answer is the question and at most 27 bytes more: nobody gains by having it sent to somebody else.

use std::net::Ipv4Addr;

use identity::principal::OrgName;

use crate::dial::destination::Destination;
use crate::local::names::addresses::LoopbackAddresses;

/// What an answer may be kept for. A service that comes is there soon.
pub(crate) const TTL: u32 = 10;
/// What is read of a query at most.
pub(crate) const LONGEST: usize = 1_232;

const HEADER: usize = 12;
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: u8 = 63;
const A: u16 = 1;
const ANY: u16 = 255;
const IN: u16 = 1;

const IS_ANSWER: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const RECURSION_DESIRED: u8 = 0x01;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Fine = 0,
    Malformed = 1,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// The answer to a query; nothing if it deserves none.
pub fn answer(query: &[u8], org: &OrgName, addresses: &LoopbackAddresses) -> Option<Vec<u8>> {
    let (header, rest) = query.split_first_chunk::<HEADER>()?;
    let [_, _, flags, _, counts @ ..] = header;
    if flags & IS_ANSWER != 0 {
        return None;
    }
    if flags & OPCODE != 0 {
        return Some(reply(header, Code::NotImplemented, None));
    }
    // One question, nothing that answers, and at most a note of what the asker understands.
    let question = match counts {
        [0, 1, 0, 0, 0, 0, 0, 0 | 1] => Question::read(rest),
        _ => None,
    };
    let Some(question) = question else {
        return Some(reply(header, Code::Malformed, None));
    };
    let (code, address) = question.judge(org, addresses);
    Some(reply(header, code, Some((&question, address))))
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
struct Question<'a> {
    /// As it was asked, to be repeated.
    bytes: &'a [u8],
    /// In small letters, without a dot at the end. Absent if a label has something else in it than names have.
    name: Option<String>,
    kind: u16,
    class: u16,
    /// The asker has told what it understands (EDNS), and is told the same.
    extended: bool,
}

impl<'a> Question<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (mut name, mut plain, mut rest, mut used) = (String::new(), true, bytes, 1);
        loop {
            let (length, after) = rest.split_first()?;
            if *length == 0 {
                rest = after;
                break;
            }
            // A pointer has nothing to point to yet.
            let (label, after) = after.split_at_checked((*length).into()).filter(|_| *length <= LONGEST_LABEL)?;
            used += 1 + label.len();
            if used > LONGEST_NAME {
                return None;
            }
            plain &= label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            if !name.is_empty() {
                name.push('.');
            }
            name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
            rest = after;
        }
        let ([k1, k2, c1, c2], rest) = rest.split_first_chunk()?;
        let bytes = bytes.get(..used + 4)?;
        let (kind, class) = (u16::from_be_bytes([*k1, *k2]), u16::from_be_bytes([*c1, *c2]));
        Some(Self { bytes, name: plain.then_some(name), kind, class, extended: rest.starts_with(&[0, 0, 41]) })
    }

    fn judge(&self, org: &OrgName, addresses: &LoopbackAddresses) -> (Code, Option<Ipv4Addr>) {
        let zone = format!("{org}.internal");
        let Some(name) = self.name.as_deref().filter(|_| self.class == IN) else {
            return (Code::Refused, None);
        };
        if name == zone {
            return (Code::Fine, None);
        }
        let Some(below) = name.strip_suffix(&zone).and_then(|below| below.strip_suffix('.')) else {
            return (Code::Refused, None);
        };
        match Destination::parse(name, org).ok().and_then(|wanted| addresses.of(&wanted)) {
            Some(address) => (Code::Fine, matches!(self.kind, A | ANY).then_some(address)),
            None if addresses.has_node(below) => (Code::Fine, None),
            None => (Code::NoSuchName, None),
        }
    }
}

fn reply(header: &[u8; HEADER], code: Code, question: Option<(&Question<'_>, Option<Ipv4Addr>)>) -> Vec<u8> {
    let [id1, id2, flags, ..] = *header;
    let ours = matches!(code, Code::Fine | Code::NoSuchName);
    let flags = IS_ANSWER | flags & (OPCODE | RECURSION_DESIRED) | if ours { AUTHORITATIVE } else { 0 };
    let address = question.and_then(|(_, address)| address);
    let extended = question.is_some_and(|(question, _)| question.extended);
    let mut bytes = vec![id1, id2, flags, code as u8];
    for count in [question.is_some(), address.is_some(), false, extended] {
        bytes.extend([0, u8::from(count)]);
    }
    if let Some((question, _)) = question {
        bytes.extend(question.bytes);
    }
    if let Some(address) = address {
        // The name is that of the question, which follows the header.
        bytes.extend([0xc0, 12, 0, 1, 0, 1]);
        bytes.extend(TTL.to_be_bytes());
        bytes.extend([0, 4]);
        bytes.extend(address.octets());
    }
    if extended {
        let [high, low] = 1_232_u16.to_be_bytes();
        bytes.extend([0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use identity::id::OrgId;
    use manifest::stored::{Dial, Place, Target};

    use super::*;

    fn table() -> LoopbackAddresses {
        let dial = |at: &str| Dial { at: Place::Node(at.parse().unwrap()), address: None };
        let target = |places: &[&str]| Target {
            places: places.iter().map(|at| dial(at)).collect(),
            node: true,
            callers: Vec::new(),
            port: Some(80),
        };
        let all = [("wiki", target(&["alpha"])), ("git", target(&["alpha", "beta"]))];
        let all: BTreeMap<_, _> = all.into_iter().map(|(name, target)| (name.parse().unwrap(), target)).collect();
        LoopbackAddresses::new(OrgId([7; 32]), &all)
    }

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(IN.to_be_bytes());
        bytes
    }

    fn ask(query: &[u8]) -> Option<Vec<u8>> {
        answer(query, &"harbor".parse().unwrap(), &table())
    }

    fn code(query: &[u8]) -> u8 {
        ask(query).unwrap()[3] & 15
    }

    #[test]
    fn a_name_has_the_address_of_its_service() {
        let wiki = table().of(&Destination { service: "wiki".parse().unwrap(), node: None }).unwrap().octets();
        for name in ["wiki.harbor.internal", "WiKi.HARBOR.internal", "wiki.alpha.harbor.internal"] {
            let asked = query(name, A);
            let record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 10, 0, 4][..], &wiki].concat();
            let expected = [&[0xab, 0xcd, 0x85, 0, 0, 1, 0, 1, 0, 0, 0, 0], &asked[12..], &record].concat();
            assert_eq!(ask(&asked), Some(expected), "{name}");
        }
        let one = query("git.beta.harbor.internal", A);
        assert_ne!(ask(&one).unwrap()[one.len()..], ask(&query("git.harbor.internal", A)).unwrap()[one.len() - 5..]);
    }

    #[test]
    fn what_is_not_there_is_said_in_the_fitting_way() {
        let long = format!("{}.harbor.internal", ["a".repeat(60).as_str(); 4].join("."));
        for (name, kind, expected, answers) in [
            ("wiki.harbor.internal", A, 0, 1),
            ("wiki.harbor.internal", 28, 0, 0),
            ("wiki.harbor.internal", 16, 0, 0),
            ("wiki.harbor.internal", ANY, 0, 1),
            ("harbor.internal", A, 0, 0),
            ("alpha.harbor.internal", A, 0, 0),
            ("gamma.harbor.internal", A, 3, 0),
            ("wiki.gamma.harbor.internal", A, 3, 0),
            ("a.b.c.harbor.internal", A, 3, 0),
            ("_x.harbor.internal", A, 3, 0),
            ("wiki.port.internal", A, 5, 0),
            ("wiki.harbor.internal.example.com", A, 5, 0),
            ("wikiharbor.internal", A, 5, 0),
            ("wíki.harbor.internal", A, 5, 0),
            ("internal", A, 5, 0),
            ("", A, 5, 0),
        ] {
            let found = ask(&query(name, kind)).unwrap();
            assert_eq!((found[3] & 15, found[7]), (expected, answers), "{name} {kind}");
        }
        assert_eq!(code(&query(&long, A)), 1, "no name is that long");
    }

    #[test]
    fn what_cannot_be_read_is_malformed_and_what_is_no_query_is_not_answered() {
        let good = query("wiki.harbor.internal", A);
        assert_eq!(ask(&good[..11]), None);
        assert_eq!(ask(b""), None);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(ask(&with(2, 0x81)), None, "an answer is not answered");
        assert_eq!(code(&with(2, 0x28)), 4, "an update");
        assert_eq!(code(&with(5, 2)), 1, "two questions");
        assert_eq!(code(&with(7, 1)), 1, "an answer in a question");
        assert_eq!(code(&with(12, 0xc0)), 1, "a pointer");
        assert_eq!(code(&with(12, 64)), 1, "a label that is too long");
        let last = good.len() - 1;
        assert_eq!(code(&with(last, 3)), 5, "another class");
        for length in 12..good.len() {
            assert_eq!(code(&good[..length]), 1, "cut off after {length}");
        }
    }

    #[test]
    fn an_asker_that_understands_more_is_told_so() {
        let mut asked = query("wiki.harbor.internal", A);
        asked[11] = 1;
        let plain = ask(&asked).unwrap();
        asked.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
        let found = ask(&asked).unwrap();
        assert_eq!((plain[11], found[11]), (0, 1));
        assert_eq!(found.len(), asked.len() + 16);
    }
}
