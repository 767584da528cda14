//! A gateway that is stolen, removed, or set back.

use trials::faults::Clock;
use trials::place::{refused, succeeded, text, until};

use super::Two;
use crate::bad_days::{agent, counter};

#[test]
fn a_removed_gateway_is_told_nothing_more() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    two.settle();
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    let invite = two.at(&a, &["invite", "create", "--name", "late"]);
    succeeded(&place.join("late", &text(&invite, "code")));
    // It is believed by nobody, and what happens now it does not hear.
    let told = place.freehold(&["node", "list", "--gateway", &b]);
    assert!(!told.status.success(), "nobody believes it");
    let ledger = place.scope("vps").join("gateway/ledger.db");
    let knows_late = || {
        let db = rusqlite::Connection::open(&ledger).unwrap();
        let count: i64 =
            db.query_row("SELECT count(*) FROM derived WHERE value LIKE '%\"late\"%'", [], |row| row.get(0)).unwrap();
        count > 0
    };
    place.joined("later");
    assert!(!knows_late());
}

#[test]
fn a_gateway_that_was_set_back_halts_although_the_other_could_fill_it_up() {
    let (two, _laptop, vps) = Two::serving();
    let (place, b) = (&two.place, two.address());
    vps.stop();
    let (folder, copy) = (place.scope("vps").join("gateway"), place.path("copy"));
    place.copy(&folder, &copy);
    let vps = two.serve_vps();
    let code = text(&two.at(&b, &["invite", "create", "--name", "lost"]), "code");
    succeeded(&place.join("lost", &code));
    two.settle();
    vps.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    place.copy(&copy, &folder);
    // The laptop has entries in this gateway's own voice that it does not have itself.
    let _vps = two.serve_vps();
    until("it says that it was set back", || {
        let told = place.freehold(&["invite", "create", "--gateway", &b]);
        trials::place::stderr(&told).contains("ledger_behind") || trials::place::stderr(&told).contains("older")
    });
}

#[test]
fn a_gateway_that_lies_about_svids_locks_nobody_out_once_it_is_removed() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    place.joined("web-1");
    two.settle();
    // It says that it made the next SVID, for a key that nobody asked for.
    let lies = rusqlite::Connection::open(place.scope("vps").join("gateway/ledger.db")).unwrap();
    let junk = "ab".repeat(32);
    let told = lies.execute(
        "INSERT INTO issued (node_key, principal, counter, request, teller, made, value)
         SELECT node_key, principal, counter + 1, ?1, 'vps', 1, json_set(value, '$.counter', counter + 1, '$.request', ?1)
         FROM issued WHERE principal LIKE '%/node/web-1' ORDER BY counter DESC LIMIT 1",
        [&junk],
    );
    assert_eq!(told.unwrap(), 1);
    let _ = two.at(&b, &["invite", "create"]);
    let heard = rusqlite::Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let count =
        || heard.query_row("SELECT count(*) FROM issued WHERE request = ?1", [&junk], |row| row.get::<_, i64>(0));
    until("the laptop has heard it", || count().unwrap() == 1);

    let before = counter(place, "web-1");
    let clock = Clock::off(place.path("later"), "+18h");
    let running = agent(place, "web-1", &clock);
    let alarm = || two.at(&a, &["node", "show", "web-1"])["alarm"].clone();
    until("the laptop alarms", || !alarm().is_null());
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    until("it renews again", || counter(place, "web-1") > before);
    drop(running);
}

#[test]
fn a_gateway_with_a_mandate_does_not_leave() {
    let (two, _laptop, _vps) = Two::serving();
    two.settle();
    refused(&two.place.node("vps", &["leave", "--yes"], ""), "is a gateway with a mandate");
    assert!(two.place.scope("vps").join("gateway/ledger.db").exists());
}
