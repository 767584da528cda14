//! What changes, and what the tunnel hears of it.

use std::collections::BTreeMap;

use identity::envelope::Envelope;
use identity::id::sha256;
use identity::key::{EdKey, Sign as _};
use identity::text::Bytes;
use identity::time::Timestamp;
use manifest::stored::{Manifest, SCHEMA};
use org::admission::Leave;
use tunnel::orders::Place;
use wire::known::KnownFile;

use super::*;

/// Whatever is signed: nobody reads it here.
fn word(at: i64) -> Envelope {
    let node_key = EdKey::from_seed(&sha256(b"somebody")).public();
    Envelope::seal(None, &Leave { node_key, at: Timestamp::from_unix(at) }).unwrap()
}

fn identity(chain: u8) -> Identity {
    let principal = "spiffe://harbor/node/alpha".parse().unwrap();
    Identity { principal, chain: vec![Bytes(vec![chain])], key: Bytes(vec![7]) }
}

fn orders() -> Orders {
    let runs = Manifest::empty(SCHEMA).runs;
    let known = KnownFile { schema: 1, founding: word(1), signers: Vec::new(), head: word(2), sighted: Vec::new() };
    Orders {
        org: "harbor".parse().unwrap(),
        node: "alpha".parse().unwrap(),
        know: Knowledge { known, roots: Vec::new(), former: Vec::new(), presented: None, pins: BTreeMap::new() },
        speak: vec![identity(1)],
        allow: vec![Access::default()],
        run: Running {
            address: runs.address,
            relay: runs.relay,
            policy: runs.tunnel,
            services: runs.services,
            ports: BTreeMap::new(),
            passwords: BTreeMap::new(),
        },
    }
}

fn kinds(orders: &[Order]) -> Vec<&'static str> {
    let kind = |order: &Order| match order {
        Order::Be { .. } => "be",
        Order::Know(_) => "know",
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
    assert_eq!(kinds(&fed.changes(&orders())), ["be", "know", "allow", "speak", "run"]);
    assert!(fed.changes(&orders()).is_empty());
    assert_eq!(kinds(&Fed::default().changes(&orders())), ["be", "know", "allow", "speak", "run"]);
}

#[test]
fn only_what_changed_is_said_again() {
    type Change = fn(&mut Orders);
    let changes: [(&[&str], Change); 8] = [
        (&["know"], |orders| orders.know.known.head = word(3)),
        (&["know"], |orders| orders.know.roots.push(Bytes(vec![1]))),
        (&["know"], |orders| orders.know.pins = [("beta".parse().unwrap(), Digest([1; 32]))].into()),
        (&["speak"], |orders| orders.speak = vec![identity(2)]),
        (&["speak"], |orders| orders.speak.clear()),
        // What went back guards what is obeyed.
        (&["allow"], |orders| orders.allow.push(Access::default())),
        (&["run"], |orders| orders.run.relay = true),
        (&[], |orders| orders.run.ports = [(Place::Socks, "127.0.0.1:1081".parse().unwrap())].into()),
    ];
    for (heard, change) in changes {
        let (mut fed, mut orders) = (Fed::default(), orders());
        fed.changes(&orders);
        change(&mut orders);
        assert_eq!(kinds(&fed.changes(&orders)), heard);
        assert!(fed.changes(&orders).is_empty());
    }
}
