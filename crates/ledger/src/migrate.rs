//! Brings an older ledger file up to date: first a copy beside it, then step by step, each whole or not at all.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ground::file;
use rusqlite::Connection;

use crate::damage::Damage;
use crate::error::{CURRENT, LedgerError, NoCopy};

/// What the first version that was released has. Never edited: a new file is made by these tables and every step after
/// them, so that new files and old ones end up the same.
const FIRST: &str = "
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT, voice TEXT NOT NULL, seq INTEGER NOT NULL,
        digest TEXT NOT NULL UNIQUE, envelope TEXT NOT NULL
    ) STRICT;
    CREATE INDEX entries_by_place ON entries (voice, seq);
    CREATE TABLE objects (digest TEXT PRIMARY KEY, envelope TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE sights (step TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE issuances (
        node_key TEXT NOT NULL, principal TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (node_key, principal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE seen (node_key TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE alarms (node_key TEXT PRIMARY KEY, at INTEGER NOT NULL, why TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE observations (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, source TEXT NOT NULL, what TEXT NOT NULL
    ) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE marks (name TEXT PRIMARY KEY, at INTEGER NOT NULL, detail TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE blobs (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE parts (
        digest TEXT NOT NULL, place INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (digest, place)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE maps (
        root TEXT NOT NULL, place INTEGER NOT NULL, leaf TEXT NOT NULL, PRIMARY KEY (root, place)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE map_changes (
        root TEXT PRIMARY KEY, base TEXT NOT NULL, depth INTEGER NOT NULL, change TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE reports (
        number INTEGER PRIMARY KEY AUTOINCREMENT, node_key TEXT NOT NULL UNIQUE,
        received_at INTEGER NOT NULL, head INTEGER NOT NULL, report TEXT NOT NULL
    ) STRICT;
    CREATE TABLE claims (
        node_key TEXT PRIMARY KEY, digest TEXT NOT NULL, invite TEXT NOT NULL, claim TEXT NOT NULL, facts TEXT,
        source TEXT NOT NULL, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX claims_by_invite ON claims (invite);
    CREATE INDEX claims_by_source ON claims (source);
    CREATE INDEX claims_by_end ON claims (until);
    CREATE TABLE reuses (
        invite TEXT NOT NULL, node_key TEXT NOT NULL, source TEXT NOT NULL, at INTEGER NOT NULL,
        name TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (invite, node_key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE issued (
        number INTEGER PRIMARY KEY AUTOINCREMENT, node_key TEXT NOT NULL, principal TEXT NOT NULL,
        counter INTEGER NOT NULL, request TEXT NOT NULL, teller TEXT NOT NULL, made INTEGER NOT NULL,
        value TEXT NOT NULL, UNIQUE (node_key, principal, counter, request)
    ) STRICT;
    CREATE TABLE issuers (gateway TEXT PRIMARY KEY, at INTEGER NOT NULL, envelope TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// A step runs in a transaction of its own, together with the change of the version.
type Step = fn(&Connection) -> Result<(), LedgerError>;

/// The step at place N leads from version `OLDEST` + N to the next. New ones are added at the end; none is ever changed.
const STEPS: [Step; 1] = [add_inbox];

/// What waits for more signatures.
fn add_inbox(db: &Connection) -> Result<(), LedgerError> {
    Ok(db.execute_batch(
        "CREATE TABLE inbox (
             number INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL, signer TEXT NOT NULL, at INTEGER NOT NULL,
             until INTEGER NOT NULL, objects TEXT NOT NULL, UNIQUE (digest, signer)
         ) STRICT;",
    )?)
}

/// The first version that was released. Older ones had another kind of entry.
const OLDEST: u32 = 7;
const _: () = assert!(CURRENT as usize == OLDEST as usize + STEPS.len(), "one step for each version after the first");

/// Says what kind of file it is to whoever finds it: `Fhld`.
const APPLICATION: i32 = 0x4668_6c64;

/// A table, or an index, that is not what this version makes: a byte flipped in what the file says of it.
pub(crate) fn odd_table(db: &Connection) -> Result<Option<String>, LedgerError> {
    let plain = Connection::open_in_memory()?;
    create(&plain)?;
    let (found, meant) = (tables(db)?, tables(&plain)?);
    let odd = found.symmetric_difference(&meant).next().map(|(name, _)| name.clone());
    Ok(odd)
}

/// Each with the words that made it.
fn tables(db: &Connection) -> Result<BTreeSet<(String, String)>, LedgerError> {
    let mut query = db.prepare("SELECT name, COALESCE(sql, tbl_name) FROM sqlite_schema")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Makes all tables in a new file.
pub(crate) fn create(db: &Connection) -> Result<(), LedgerError> {
    in_one(db, CURRENT, |db| {
        db.execute_batch(FIRST)?;
        db.pragma_update(None, "application_id", APPLICATION)?;
        STEPS.iter().try_for_each(|step| step(db))
    })
}

/// The version of a file, if this program can do something with it.
pub(crate) fn version(db: &Connection, path: &Path) -> Result<u32, LedgerError> {
    match db.pragma_query_value(None, "user_version", |row| row.get(0))? {
        0 => Err(Damage::NoTables(path.to_owned()).into()),
        found if found < OLDEST => Err(LedgerError::Older { path: path.to_owned(), found }),
        found if found > CURRENT => Err(LedgerError::Newer { path: path.to_owned(), found }),
        found => Ok(found),
    }
}

/// Nothing to do for a file of today; an older one is copied and then changed. The caller holds the gateway's lock.
pub(crate) fn bring_up(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let found = version(db, path)?;
    if found == CURRENT {
        return Ok(());
    }
    let kept = free_name(path, found);
    copy(db, &kept)?;
    tracing::info!(from = found, to = CURRENT, copy = %kept.display(), "bringing the ledger's file up to date");
    let done = (OLDEST + 1..).zip(STEPS).filter(|(to, _)| *to > found).try_for_each(|(to, step)| in_one(db, to, step));
    done.inspect_err(|_| {
        // Not a step was taken: a failure that comes again at each start must not fill the disk with copies.
        if matches!(version(db, path), Ok(now) if now == found) {
            let _ = fs::remove_file(&kept);
        }
    })
}

/// Runs a step and changes the version: both or neither, whenever the power goes.
fn in_one(db: &Connection, to: u32, step: impl Fn(&Connection) -> Result<(), LedgerError>) -> Result<(), LedgerError> {
    db.execute_batch("BEGIN EXCLUSIVE")?;
    let done = step(db).and_then(|()| {
        db.pragma_update(None, "user_version", to)?;
        Ok(db.execute_batch("COMMIT")?)
    });
    done.inspect_err(|_| {
        let _ = db.execute_batch("ROLLBACK");
    })
}

/// `ledger.db.v1.bak`; if there is one from an earlier time, `ledger.db.v1.2.bak` and so on.
fn free_name(path: &Path, version: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let first = path.with_file_name(format!("{name}.v{version}.bak"));
    let more = (2..).map(|number: u32| path.with_file_name(format!("{name}.v{version}.{number}.bak")));
    std::iter::once(first.clone()).chain(more).find(|free| !free.exists()).unwrap_or(first)
}

/// A copy of one moment, while others may read and write. It is whole or absent, and for this user alone.
pub(crate) fn copy(db: &Connection, to: &Path) -> Result<(), LedgerError> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let draft = to.with_file_name(format!(".{name}.{}.draft", std::process::id()));
    let cannot = |why: NoCopy| LedgerError::NotCopied { path: to.to_owned(), why };
    let write = || -> Result<(), LedgerError> {
        let _ = fs::remove_file(&draft);
        // An empty file with the right mode: SQLite fills it.
        let empty = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
        let empty = empty.map_err(|why| cannot(why.into()))?;
        let place = std::path::absolute(&draft).map_err(|why| cannot(why.into()))?;
        let place = place.to_str().ok_or_else(|| cannot(NoCopy::OddPath))?;
        db.execute("VACUUM INTO ?1", [place])?;
        empty.sync_all().map_err(|why| cannot(why.into()))?;
        file::rename(&draft, to).map_err(|why| cannot(why.into()))
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(db: &Connection, what: &str) -> i64 {
        db.query_row(what, [], |row| row.get(0)).unwrap()
    }

    fn file(version: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let db = Connection::open(&path).unwrap();
        create(&db).unwrap();
        db.execute("INSERT INTO meta VALUES ('note', 'kept')", []).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_of_today_is_left_as_it_is() {
        let (folder, path) = file(CURRENT);
        bring_up(&Connection::open(&path).unwrap(), &path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left to do");
    }

    #[test]
    fn a_file_of_the_first_release_gets_the_inbox_and_a_copy_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let db = Connection::open(&path).unwrap();
        in_one(&db, OLDEST, |db| Ok(db.execute_batch(FIRST)?)).unwrap();
        db.execute("INSERT INTO meta VALUES ('note', 'kept')", []).unwrap();
        bring_up(&db, &path).unwrap();
        assert_eq!(number(&db, "PRAGMA user_version"), i64::from(CURRENT));
        assert_eq!(number(&db, "SELECT count(*) FROM inbox"), 0);
        assert_eq!(number(&db, "SELECT count(*) FROM meta"), 1);
        let copy = Connection::open(folder.path().join("ledger.db.v7.bak")).unwrap();
        assert_eq!(number(&copy, "PRAGMA user_version"), i64::from(OLDEST));
        assert_eq!(number(&copy, "SELECT count(*) FROM meta"), 1);
        bring_up(&db, &path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left to do");
    }

    #[test]
    fn what_is_older_than_the_first_release_is_refused_with_words_and_not_touched() {
        for version in 1..OLDEST {
            let (folder, path) = file(version);
            let db = Connection::open(&path).unwrap();
            let why = bring_up(&db, &path).unwrap_err().to_string();
            for words in ["ledger.db", "before the first release", &format!("version {version}"), "found the org anew"]
            {
                assert!(why.contains(words), "{why}");
            }
            assert_eq!(number(&db, "PRAGMA user_version"), i64::from(version));
            assert_eq!(number(&db, "SELECT count(*) FROM meta"), 1);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_a_newer_program_wrote_is_refused_with_words() {
        let (_folder, path) = file(CURRENT + 1);
        let why = bring_up(&Connection::open(&path).unwrap(), &path).unwrap_err().to_string();
        for words in ["ledger.db", "newer freehold", &format!("version {}", CURRENT + 1), "upgrade"] {
            assert!(why.contains(words), "{why}");
        }
    }
}
