//! What programs ask the resolver: every answer is short, is for its question, and tells of our own zone alone.

use std::sync::LazyLock;

use identity::id::OrgId;
use identity::principal::OrgName;
use manifest::stored::{Dial, Place, Target};
use tunnel::local::names::addresses::LoopbackAddresses;
use tunnel::local::names::dns::answer;

static ORG: LazyLock<OrgName> = LazyLock::new(|| "harbor".parse().expect("a name"));
static TABLE: LazyLock<LoopbackAddresses> = LazyLock::new(|| {
    let dial = |at: &&str| Dial { at: Place::Node(at.parse().expect("a name")), address: None };
    let target = |places: &[&str]| Target {
        places: places.iter().map(dial).collect(),
        node: true,
        callers: Vec::new(),
        port: Some(80),
    };
    let all = [("wiki", target(&["alpha"])), ("git", target(&["alpha", "beta"]))];
    LoopbackAddresses::new(
        OrgId([7; 32]),
        &all.into_iter().map(|(name, target)| (name.parse().expect("a name"), target)).collect(),
    )
});

const A: u8 = 1;
const AAAA: u8 = 28;

pub fn seeds() -> Vec<Vec<u8>> {
    let mut extended = query("git.beta.harbor.internal", A);
    extended[11] = 1;
    extended.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
    vec![
        query("wiki.harbor.internal", A),
        query("WIKI.alpha.Harbor.internal", A),
        query("wiki.harbor.internal", AAAA),
        query("harbor.internal", 6),
        query("missing.harbor.internal", A),
        extended,
    ]
}

fn query(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("short"));
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, kind, 0, 1]);
    bytes
}

/// Got to its end: the question is one about our zone.
pub fn check(data: &[u8]) -> bool {
    let Some(found) = answer(data, &ORG, &TABLE) else {
        return false;
    };
    assert_eq!(found[..2], data[..2], "it is for this query");
    assert!(found[2] & 0x80 != 0 && found[3] & 0x80 == 0, "an answer, and no recursion");
    assert!(found.len() <= data.len() + 27, "little is added");
    assert_eq!(answer(&found, &ORG, &TABLE), None, "an answer is not answered");
    let (code, answers) = (found[3] & 15, found[7]);
    if !matches!(code, 0 | 3) {
        assert!(matches!(code, 1 | 4 | 5) && answers == 0, "a refusal tells nothing");
        return false;
    }
    let zone = b"\x06harbor\x08internal\x00";
    let lower = found.to_ascii_lowercase();
    let end = lower.windows(zone.len()).position(|window| window == zone).expect("of our zone") + zone.len() + 4;
    assert_eq!(found[12..end], data[12..end], "the question is repeated as it was");
    if answers == 1 {
        assert_eq!(found[end..end + 12], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 10, 0, 4]);
        let [127, 64..128, _, _] = found[end + 12..end + 16] else {
            panic!("not an address of loopback");
        };
    }
    true
}
