//! Rows of a ledger's file as a hostile disk would have them: opened, checked and asked, it says what is wrong, or goes on.
//!
//! The last part of a text are the rows, one per line: table, then columns, between tabs. Parts before it may stand in them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use identity::bundle::Domain;
use identity::head::Revocations;
use identity::id::{Correlation, Digest};
use identity::principal::NodeName;
use identity::signers::Recovery;
use ledger::store::Ledger;
use ledger::views;
use org::enroll::{Attempt, consider};
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::ledger::frontier::Frontier;
use org::state::State;
use rusqlite::Connection;

use crate::cast::{GATEWAYS, NOW, ed, public};
use crate::harbor::{HARBOR, claim, head, quorum};
use crate::sealing::{self, Text};

/// Tables, and how many columns of each are given.
const TABLES: [(&str, usize); 7] =
    [("entries", 4), ("objects", 2), ("sights", 2), ("meta", 2), ("maps", 3), ("map_changes", 4), ("issuances", 3)];
const MOST_ROWS: usize = 64;

pub fn seeds() -> Vec<Vec<u8>> {
    vec![chain(), admitted(), objects(), rows(&mut Text::default(), &[founding(), "maps\tx\t0\ty".to_owned()])]
}

fn rows(text: &mut Text, lines: &[String]) -> Vec<u8> {
    text.add_raw("rows", &lines.join("\n"));
    text.bytes()
}

fn founding() -> String {
    format!("meta\tfounding\t{}", serde_json::to_string(&HARBOR.founding.envelope).expect("JSON"))
}

fn entry(n: usize, signed: &SignedEntry) -> String {
    format!("entries\t{}\t{}\t\"#{n}\"\t\"@{n}\"", signed.entry.voice, signed.entry.seq)
}

fn write(text: &mut Text, entries: &[SignedEntry]) -> Vec<String> {
    let mut add = |signed: &SignedEntry| entry(text.add(Some(HARBOR.founding.id), &signed.entry, "gw-1", &[]), signed);
    entries.iter().map(&mut add).collect()
}

fn chain() -> Vec<u8> {
    let mut text = Text::default();
    let lines = write(&mut text, &HARBOR.log);
    rows(&mut text, &lines)
}

/// The first entries of the chain are with the others; these are what follows.
fn admitted() -> Vec<u8> {
    let (mut harbor, mut text) = (HARBOR.copy(), Text::default());
    let mut entries = vec![HARBOR.log[0].clone(), HARBOR.log[2].clone()];
    for (n, name) in [(1, "web-1"), (2, "web-2")] {
        let action = harbor.admit(harbor.claim(n, name));
        entries.push(harbor.write("gw-1", action));
    }
    let (node_key, name): (_, NodeName) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    entries.push(harbor.write("gw-1", Action::NodeJoin { node_key, name }));
    let lines = write(&mut text, &entries);
    rows(&mut text, &lines)
}

/// Objects that no entry carries, and a recovery that was seen long ago.
fn objects() -> Vec<u8> {
    let (org, mut text) = (Some(HARBOR.founding.id), Text::default());
    let head = head(1, HARBOR.signers(), Revocations::default());
    text.add(org, &head, "ann ben", &[]);
    let under = HARBOR.state.under().digest;
    let (previous, quorum) = (HARBOR.signers().id, quorum(1, &["cat"]));
    let recovery = Recovery { version: 2, previous, quorum, head: Some(under), settles: false, at: NOW };
    text.add(org, &recovery, "safe", &[]);
    let object = |n: usize| format!("objects\t\"#{n}\"\t\"@{n}\"");
    let lines = [object(0), object(1), format!("sights\t\"#1\"\t{}", NOW.unix() - 200_000)];
    rows(&mut text, &lines)
}

/// One file for all tries: its rows are replaced.
static FILE: LazyLock<(PathBuf, Mutex<Connection>)> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let path = folder.join(format!("freehold-fuzz-{}.db", std::process::id()));
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
    }
    drop(Ledger::create(&path, &HARBOR.founding).expect("a file"));
    let db = Connection::open(&path).expect("a file");
    db.pragma_update(None, "synchronous", "OFF").expect("a pragma");
    (path, Mutex::new(db))
});

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let Some(text) = sealing::last(&parts, "rows").and_then(|part| std::str::from_utf8(&part.payload).ok()) else {
        return false;
    };
    let (path, db) = &*FILE;
    {
        let db = db.lock().expect("one at a time");
        if put(&db, text).is_none() {
            return false;
        }
    }
    let Ok((ledger, founding)) = Ledger::open(path) else {
        return false;
    };
    let (sound, state) = (ledger.check(), ledger.state(&founding, NOW));
    let _ = (ledger.all_entries(), ledger.sights(), ledger.objects(), Ledger::examine(path));
    let Ok(state) = state else {
        return false;
    };
    // By the clock that does not jump a second may pass between two reads, and not between all three.
    let [again, once_more] = [(); 2].map(|()| ledger.state(&founding, NOW).expect("it was read before"));
    let pairs = [(&again, &state), (&once_more, &again)];
    let same = |(one, other): &(&State, &State)| {
        (&one.judged.fold, &one.judged.signers, &one.frontier)
            == (&other.judged.fold, &other.judged.signers, &other.frontier)
    };
    assert!(pairs.iter().any(same), "what was read is read again");
    ask(&ledger, &state);
    go_on(&state);
    sound.is_ok() || !state.frontier.is_empty() || state.head().is_some()
}

/// Nothing if it is no row of a table.
fn put(db: &Connection, text: &str) -> Option<()> {
    db.execute_batch("BEGIN").expect("a transaction");
    for (table, _) in TABLES {
        db.execute(&format!("DELETE FROM {table}"), []).expect("a table");
    }
    let founding = serde_json::to_string(&HARBOR.founding.envelope).expect("JSON");
    db.execute("INSERT INTO meta VALUES ('founding', ?1)", [founding]).expect("a row");
    let put = |line: &str| {
        let mut columns = line.split('\t');
        let named = columns.next()?;
        let (table, count) = TABLES.into_iter().find(|(table, _)| *table == named)?;
        let columns: Vec<&str> = columns.map(|column| column.trim_matches('"')).collect();
        let columns = rusqlite::params_from_iter((columns.len() == count).then_some(columns)?);
        let names = if table == "entries" { " (voice, seq, digest, envelope)" } else { "" };
        let places = ["?"; 4][..count].join(", ");
        // What SQLite itself refuses never was there.
        let _ = db.execute(&format!("INSERT OR REPLACE INTO {table}{names} VALUES ({places})"), columns);
        Some(())
    };
    let lines = text.split('\n').filter(|line| !line.is_empty()).take(MOST_ROWS);
    let done = lines.map(put).collect::<Option<Vec<()>>>();
    db.execute_batch("COMMIT").expect("a transaction");
    done.map(drop)
}

/// Every question that a gateway asks of its ledger and of its state.
fn ask(ledger: &Ledger, state: &State) {
    let _ = (ledger.beyond(state, &Frontier::default()), ledger.beyond(state, &state.frontier), ledger.forks(state));
    let _ = (state.head(), state.signer_set(), state.is_frozen(), state.signer_chain(0), state.open_recoveries());
    let _ = state.trusted_bundles(Domain::Identity).chain(state.trusted_bundles(Domain::Endpoint)).count();
    for member in state.members.values() {
        let _ = state.holder(&member.claim().name);
    }
    let _ = (views::nodes(state, BTreeMap::new()), views::invites(state, &BTreeMap::new()));
    for gateway in GATEWAYS {
        let gateway: NodeName = gateway.parse().expect("a name");
        let (claim, claimed, source) = (claim(1, "web-1"), Digest([0; 32]), IpAddr::from([10, 0, 0, 1]));
        let _ = consider(state, Attempt { claim: &claim, claimed, source, gateway: &gateway, now: NOW });
    }
}

/// Whatever was read, the next entry is taken or refused.
fn go_on(state: &State) {
    let invite = HARBOR.invite.clone();
    for action in [HARBOR.admit(HARBOR.claim(1, "web-1")), Action::Take { envelope: invite }] {
        let mut state = state.clone();
        let (voice, moment) = (ed("gw-1"), Stamp { at: NOW, correlation: Correlation([7; 8]) });
        let last = state.frontier.place_of(&public("gw-1"));
        let signed = SignedEntry::write(state.org, last, &voice, state.under(), moment, action);
        let signed = signed.expect("an entry can be written");
        let before = state.judged.fold.clone();
        if state.take_own(&signed, None, NOW).is_err() {
            assert_eq!(state.judged.fold, before, "what is refused changes nothing");
        }
        org::audit::line(&state, &signed);
    }
}
