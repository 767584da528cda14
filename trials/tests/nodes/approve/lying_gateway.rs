//! A gateway that was taken over shows operators what it likes: what it cannot sign is not believed.

use identity::envelope::Envelope;
use rusqlite::{Connection, params};
use serde_json::json;
use trials::attack::intruder::Intruder;
use trials::client::joiner::Joiner;
use trials::place::{Place, refused, stderr, succeeded};

use super::{begin, human, waiting, words};

/// What a gateway keeps of those who wait is its own to change.
fn change(place: &Place, name: &str, column: &str, value: &str) {
    let db = Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let row =
        format!("UPDATE claims SET {column} = ?1 WHERE node_key = (SELECT node_key FROM claims WHERE digest = ?2)");
    let digest = waiting(place).into_iter().find(|row| row["name"] == name).unwrap()["claim"].clone();
    assert_eq!(db.execute(&row, params![value, digest.as_str().unwrap()]).unwrap(), 1);
}

fn stored(place: &Place, name: &str, column: &str) -> String {
    let db = Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let digest = waiting(place).into_iter().find(|row| row["name"] == name).unwrap()["claim"].clone();
    let query = format!("SELECT {column} FROM claims WHERE digest = ?1");
    db.query_row(&query, [digest.as_str().unwrap()], |row| row.get(0)).unwrap()
}

#[test]
fn a_gateway_cannot_swap_what_a_machine_signed() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let code = human(&place, &["--uses", "5"]);
    let joins = ["web-1", "web-2"].map(|name| begin(&place, name, name, &code));
    let shown = ["web-1", "web-2"].map(|name| words(&place, name));
    joins.into_iter().for_each(trials::place::Running::kill);
    gateway.kill();

    // The facts of one machine under another's claim.
    let (own, others) = (stored(&place, "web-1", "facts"), stored(&place, "web-2", "facts"));
    change(&place, "web-1", "facts", &others);
    let listed = place.freehold(&["node", "waiting", "--json"]);
    succeeded(&listed);
    assert!(stderr(&listed).contains("the facts of `web-1` is not what that machine signed"), "{}", stderr(&listed));
    let row = waiting(&place).into_iter().find(|row| row["name"] == "web-1").unwrap();
    assert_eq!(row["hostname"], json!(null));
    change(&place, "web-1", "facts", &own);

    // The address is its own word, and is marked so.
    change(&place, "web-1", "source", "192.0.2.77");
    let told = stderr(&place.freehold(&["node", "approve", "web-1"]));
    assert!(told.contains("192.0.2.77 (the gateway says so)"), "{told}");

    // A claim of its own making, under the machine's name: it has no invite's secret.
    let mut forger = Joiner::new(&code, "web-1");
    forger.name = "web-1".parse().unwrap();
    let honest = stored(&place, "web-1", "claim");
    let counterfeit: Envelope = forger.claim_by(&[&forger.node_key]);
    change(&place, "web-1", "claim", &serde_json::to_string(&counterfeit).unwrap());
    let listed = place.freehold(&["node", "waiting", "--json"]);
    let told = stderr(&listed);
    assert!(told.contains("it is not signed by the machine's key and its invite's"), "{told}");
    assert_eq!(waiting(&place).len(), 1, "only the other is shown");
    refused(&place.freehold(&["node", "approve", &shown[0], "--yes"]), "no such machine waits");
    let forgers = org::invite::words::Words::of(counterfeit.digest()).to_string();
    refused(&place.freehold(&["node", "approve", &forgers, "--yes"]), "no such machine waits");

    // Another machine's claim in its place has other words.
    let db = Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let other = stored(&place, "web-2", "claim");
    db.execute("UPDATE claims SET claim = ?1", [&other]).unwrap();
    refused(&place.freehold(&["node", "approve", &shown[0], "--yes"]), "no such machine waits");
    db.execute("UPDATE claims SET claim = ?1", [&honest]).unwrap();
    drop(db);
    assert_eq!(place.state_of("web-1"), None);
    assert!(place.facts(&["audit"]).as_array().unwrap().iter().all(|line| line["action"] != "node.approve"));
}

#[test]
fn a_gateway_cannot_show_a_claim_under_another_invite() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let code = human(&place, &[]);
    let open = place.invite(&["--uses", "5"]);
    let join = begin(&place, "web-1", "web-1", &code);
    let shown = words(&place, "web-1");
    join.kill();
    gateway.kill();
    let state = Intruder::at(place.org().join("gateway")).state();
    let (other, _) = state.invite(open["id"].as_str().unwrap().parse().unwrap()).unwrap();
    change(&place, "web-1", "invite", &other.to_string());
    let listed = place.freehold(&["node", "waiting", "--json"]);
    assert!(stderr(&listed).contains("warning: the gateway shows claim"), "{}", stderr(&listed));
    refused(&place.freehold(&["node", "approve", &shown, "--yes"]), "no such machine waits");
}
