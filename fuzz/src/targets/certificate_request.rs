//! A certificate request as a stranger sends it: gives a P-256 key that signed it, or nothing.

use identity::certificate::{make_request, read_request};

use crate::cast::node_key;

pub fn seeds() -> Vec<Vec<u8>> {
    [1, 2].map(|n| make_request(&node_key(n)).expect("a request")).to_vec()
}

pub fn check(data: &[u8]) -> bool {
    let Ok(key) = read_request(data) else {
        return false;
    };
    assert!(data.len() <= 8 << 10, "a request is bounded");
    assert_eq!(key.spki.len(), 91, "P-256, uncompressed");
    assert_eq!(key.id, identity::id::KeyId::of_spki(&key.spki));
    assert!(data.windows(91).any(|window| window == key.spki), "the key stands in the request");
    assert!(read_request(&[data, &[0]].concat()).is_err(), "nothing may follow");
    true
}
