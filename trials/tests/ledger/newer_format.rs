//! A ledger file that a newer program wrote is refused, and left alone. Those from before the first release: `fixtures`.

use std::path::PathBuf;

use rusqlite::Connection;
use trials::place::{Place, ended, stderr, stdout};

/// The version that today's program writes.
const CURRENT: i64 = 8;

#[test]
fn a_newer_ledger_is_refused_and_left_alone() {
    let place = Place::founded(&[]);
    let db = Connection::open(ledger(&place)).unwrap();
    assert_eq!(db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap(), CURRENT);
    db.pragma_update(None, "user_version", CURRENT + 1).unwrap();
    drop(db);
    let before = std::fs::read(ledger(&place)).unwrap();
    for words in [&["serve"][..], &["node", "list"], &["audit", "--verify"], &["invite", "create"]] {
        let no = place.freehold(words);
        ended(&no, 1, "was written by a newer freehold");
        for words in ["ledger.db", &format!("version {}", CURRENT + 1), "upgrade freehold on this machine"] {
            assert!(stderr(&no).contains(words), "{}", stderr(&no));
        }
    }
    assert_eq!(std::fs::read(ledger(&place)).unwrap(), before);
    assert!(stdout(&place.freehold(&["org", "list"])).contains("harbor"), "the list goes on without the count");
}

fn ledger(place: &Place) -> PathBuf {
    place.org().join("gateway/ledger.db")
}
