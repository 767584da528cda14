//! What changes, and what the tunnel hears of it.

use std::collections::BTreeMap;

use identity::envelope::Envelope;
use identity::id::sha256;
use identity::key::{EdKey, Sign as _};
use identity::text::Bytes;
use identity::time::Timestamp;
use manifest::stored::{Manifest, SCHEMA};
use org::invite::admission::Leave;
use tunnel::control::listener::ListenerId;
use wire::known::KnownFile;

use super::*;

/// Whatever is signed: nobody reads it here.
fn word(at: i64) -> Envelope {
    let node_key = EdKey::from_seed(&sha256(b"somebody")).public();
    Envelope::seal(None, &Leave { node_key, at: Timestamp::from_unix(at) }).unwrap()
}

fn identity(chain: u8) -> KeyedSvid {
    let principal = "spiffe://harbor/node/alpha".parse().unwrap();
    KeyedSvid { principal, chain: vec![Bytes(vec![chain])], key: Bytes(vec![7]) }
}

pub(crate) fn orders() -> Orders {
    let runs = Manifest::empty(SCHEMA).runs;
    let known: KnownFile =
        serde_json::from_value(serde_json::json!({"schema": 3, "founding": word(1), "steps": [], "head": word(2)}))
            .unwrap();
    Orders {
        id: identity::id::OrgId([1; 32]),
        org: "harbor".parse().unwrap(),
        node: "alpha".parse().unwrap(),
        know: Knowledge {
            known,
            ahead: 0,
            roots: Vec::new(),
            former: Vec::new(),
            suspensions: org::suspend::suspended::Suspensions::default(),
            presented: None,
        },
        speak: vec![identity(1)],
        allow: vec![Access::default()],
        run: TunnelConfig {
            address: runs.address,
            relay: runs.relay,
            policy: runs.tunnel,
            services: runs.services,
            ports: BTreeMap::new(),
            passwords: BTreeMap::new(),
        },
        gaps: BTreeMap::new(),
    }
}

fn kinds(orders: &[Order]) -> Vec<&'static str> {
    let kind = |order: &Order| match order {
        Order::Be { .. } => "be",
        Order::Know(_) => "know",
        Order::Pin(_) => "pin",
        Order::Speak(_) => "speak",
        Order::Allow(_) => "allow",
        Order::Run(_) => "run",
        Order::Show(_) => "show",
    };
    orders.iter().map(kind).collect()
}

#[test]
fn a_new_process_hears_everything_and_authority_first() {
    let mut fed = Fed::default();
    assert_eq!(kinds(&fed.changes(&orders(), &BTreeMap::new())), ["be", "know", "allow", "speak", "run"]);
    assert!(fed.changes(&orders(), &BTreeMap::new()).is_empty());
    assert_eq!(kinds(&Fed::default().changes(&orders(), &BTreeMap::new())), ["be", "know", "allow", "speak", "run"]);
}

#[test]
fn only_what_changed_is_said_again() {
    type Change = fn(&mut Orders);
    let changes: [(&[&str], Change); 7] = [
        (&["know"], |orders| orders.know.known.head = word(3)),
        (&["know"], |orders| orders.know.roots.push(Bytes(vec![1]))),
        (&["speak"], |orders| orders.speak = vec![identity(2)]),
        (&["speak"], |orders| orders.speak.clear()),
        // What went back guards what is obeyed.
        (&["allow"], |orders| orders.allow.push(Access::default())),
        (&["run"], |orders| orders.run.relay = true),
        (&[], |orders| orders.run.ports = [(ListenerId::Socks, "127.0.0.1:1081".parse().unwrap())].into()),
    ];
    for (heard, change) in changes {
        let (mut fed, mut orders) = (Fed::default(), orders());
        fed.changes(&orders, &BTreeMap::new());
        change(&mut orders);
        assert_eq!(kinds(&fed.changes(&orders, &BTreeMap::new())), heard);
        assert!(fed.changes(&orders, &BTreeMap::new()).is_empty());
    }
}

#[test]
fn a_key_under_a_name_is_said_once_and_nothing_else_with_it() {
    let (mut fed, orders) = (Fed::default(), orders());
    let mut pins: BTreeMap<NodeName, Digest> = [("web-1".parse().unwrap(), Digest([1; 32]))].into();
    assert_eq!(kinds(&fed.changes(&orders, &pins)), ["be", "know", "pin", "allow", "speak", "run"]);
    pins.insert("web-2".parse().unwrap(), Digest([2; 32]));
    let said = fed.changes(&orders, &pins);
    assert!(
        matches!(&said[..], [Order::Pin(new)] if new.len() == 1 && new.contains_key(&"web-2".parse::<NodeName>().unwrap()))
    );
    pins.insert("web-1".parse().unwrap(), Digest([3; 32]));
    assert_eq!(kinds(&fed.changes(&orders, &pins)), ["pin"]);
    assert!(fed.changes(&orders, &pins).is_empty());
}
