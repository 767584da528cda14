//! The gateway's ledger on disk: entries, derived tables, issuance log, observations. SQLite, one writer.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use identity::envelope::Envelope;
use identity::head::Cut;
use identity::id::{Digest, OrgId};
use identity::principal::Principal;
use identity::time::Timestamp;
use org::derived::{self, BadRow, Rows};
use org::entry::SignedEntry;
use org::founding::Founding;
use org::renew::{Conflict, Issuance};
use org::state::State;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

/// The version of the tables below.
const SCHEMA: u32 = 1;
/// Observations are kept for people to look at, not for ever.
const MAX_OBSERVATIONS: u32 = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger cannot be read or written")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the ledger was written by a newer freehold (schema {found}; this one knows {SCHEMA}): upgrade freehold")]
    Newer { found: u32 },
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Row(#[from] BadRow),
}

/// Why a node key gets nothing any more, until operators end it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    pub why: String,
    /// Absent in what was written before evidence was kept.
    pub conflict: Option<Conflict>,
}

impl LedgerError {
    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        use rusqlite::ErrorCode as Code;
        let Self::Sqlite(why) = self else {
            return match self {
                Self::Newer { .. } => None,
                Self::Sqlite(_) | Self::Damaged(_) | Self::Row(_) => Some(DAMAGED),
            };
        };
        match why.sqlite_error_code() {
            Some(Code::DiskFull) => Some("make room on the disk of the gateway's folder, and run this again"),
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                Some("the gateway's folder cannot be written: look at its disk and its owner")
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) | None => Some(DAMAGED),
            Some(_) => None,
        }
    }
}

/// The cure for what nothing can make again.
pub const DAMAGED: &str =
    "keep the gateway's folder as it is, and put the newest good copy of it in its place; nothing was served from it";

/// One row of the entries' table.
#[derive(Debug)]
pub(super) struct StoredEntry {
    pub id: i64,
    /// Author, epoch, sequence and digest, as they are looked up.
    pub place: (String, u32, i64, String),
    pub envelope: String,
}

#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    org: OrgId,
}

const TABLES: &str = "
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        author TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
        digest TEXT NOT NULL UNIQUE, envelope TEXT NOT NULL,
        UNIQUE (author, epoch, seq)
    ) STRICT;
    CREATE TABLE derived (
        tbl TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (tbl, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE issuances (
        node_key TEXT NOT NULL, principal TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (node_key, principal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE seen (node_key TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE alarms (node_key TEXT PRIMARY KEY, at INTEGER NOT NULL, why TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE observations (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, source TEXT NOT NULL, what TEXT NOT NULL
    ) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

impl Ledger {
    /// Makes the file and its tables; the founding record goes in first.
    pub fn create(path: &Path, founding: &Founding) -> Result<Self, LedgerError> {
        // SQLite gives its side files the mode of the main one.
        let empty = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        empty.map_err(|why| LedgerError::Damaged(format!("`{}`: {why}", path.display())))?;
        let db = open(path)?;
        db.execute_batch(TABLES)?;
        db.execute("INSERT INTO meta VALUES ('founding', ?1)", [json(&founding.envelope)])?;
        db.pragma_update(None, "user_version", SCHEMA)?;
        Ok(Self { db, org: founding.id })
    }

    pub fn open(path: &Path) -> Result<(Self, Founding), LedgerError> {
        if !path.exists() {
            return Err(LedgerError::Damaged(format!("`{}` is missing", path.display())));
        }
        let db = open(path)?;
        let found: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if found > SCHEMA {
            return Err(LedgerError::Newer { found });
        }
        if found != SCHEMA {
            return Err(LedgerError::Damaged("it has no tables".to_owned()));
        }
        let envelope: String = db.query_row("SELECT value FROM meta WHERE key = 'founding'", [], |row| row.get(0))?;
        let founding = Founding::open(read(&envelope)?).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        Ok((Self { db, org: founding.id }, founding))
    }

    /// What the ledger says now, without a lock and without changing anything.
    pub fn glance(path: &Path) -> Result<State, LedgerError> {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let envelope: String = db.query_row("SELECT value FROM meta WHERE key = 'founding'", [], |row| row.get(0))?;
        let founding = Founding::open(read(&envelope)?).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        Self { db, org: founding.id }.state(&founding)
    }

    pub fn state(&self, founding: &Founding) -> Result<State, LedgerError> {
        Ok(derived::restore(founding, &self.derived()?)?)
    }

    // ---- one commit for many jobs ----

    pub fn begin(&self) -> Result<(), LedgerError> {
        Ok(self.db.execute_batch("BEGIN IMMEDIATE")?)
    }

    pub fn commit(&self) -> Result<(), LedgerError> {
        Ok(self.db.execute_batch("COMMIT")?)
    }

    pub fn roll_back(&self) {
        let _ = self.db.execute_batch("ROLLBACK");
    }

    // ---- entries and what follows from them ----

    /// Adds an entry that `state` has already taken, and the rows that it changed.
    pub fn append(&self, state: &State, signed: &SignedEntry) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("INSERT INTO entries (author, epoch, seq, digest, envelope) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                signed.entry.author.to_string(),
                signed.entry.epoch,
                i64::try_from(signed.entry.seq).unwrap_or(i64::MAX),
                signed.digest.to_string(),
                json(&signed.envelope)
            ])?;
        match derived::rows_after(state, signed) {
            Some(rows) => self.put_rows(&rows),
            None => self.replace_rows(&derived::rows(state)),
        }
    }

    fn put_rows(&self, rows: &Rows) -> Result<(), LedgerError> {
        let mut put = self.db.prepare_cached("INSERT OR REPLACE INTO derived VALUES (?1, ?2, ?3)")?;
        for ((table, key), value) in rows {
            put.execute([table, key, value])?;
        }
        Ok(())
    }

    /// Writes what differs.
    pub(super) fn replace_rows(&self, rows: &Rows) -> Result<(), LedgerError> {
        let old = self.derived()?;
        let changed = rows.iter().filter(|(key, value)| old.get(key) != Some(value));
        self.put_rows(&changed.map(|(key, value)| (key.clone(), value.clone())).collect())?;
        let mut remove = self.db.prepare_cached("DELETE FROM derived WHERE tbl = ?1 AND key = ?2")?;
        for (table, key) in old.keys().filter(|key| !rows.contains_key(key)) {
            remove.execute([table, key])?;
        }
        Ok(())
    }

    pub(super) fn derived(&self) -> Result<Rows, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT tbl, key, value FROM derived")?;
        let rows = query.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub fn derived_page(
        &self,
        after: Option<&(String, String)>,
        limit: u32,
    ) -> Result<Vec<(String, String, String)>, LedgerError> {
        let (table, key) = after.map_or(("", ""), |(table, key)| (table, key));
        let mut query = self.db.prepare_cached(
            "SELECT tbl, key, value FROM derived WHERE (tbl, key) > (?1, ?2) ORDER BY tbl, key LIMIT ?3",
        )?;
        let rows = query.query_map(params![table, key, limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    // ---- for `check` ----

    pub(super) fn check_structure(&self) -> Result<(), LedgerError> {
        let found: String = self.db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found == "ok" { Ok(()) } else { Err(LedgerError::Damaged(found)) }
    }

    pub(super) fn stored_entries(&self, after: i64) -> Result<Vec<StoredEntry>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, author, epoch, seq, digest, envelope FROM entries WHERE id > ?1 ORDER BY id LIMIT 1000",
        )?;
        let rows = query.query_map([after], |row| {
            let place = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            Ok(StoredEntry { id: row.get(0)?, place, envelope: row.get(5)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn issuance_rows(&self) -> Result<Vec<(String, String)>, LedgerError> {
        let mut query = self.db.prepare("SELECT principal, value FROM issuances")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A page of entries in order of arrival, each with its row number.
    pub fn entries(&self, after: u64, limit: u32) -> Result<Vec<(u64, Envelope)>, LedgerError> {
        let mut query =
            self.db.prepare_cached("SELECT id, envelope FROM entries WHERE id > ?1 ORDER BY id LIMIT ?2")?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let rows =
            query.query_map(params![after, limit], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        let mut out = Vec::new();
        for row in rows {
            let (id, text) = row?;
            let damaged = |why: LedgerError| LedgerError::Damaged(format!("entry {id}: {why}"));
            out.push((u64::try_from(id).unwrap_or_default(), read(&text).map_err(damaged)?));
        }
        Ok(out)
    }

    pub fn entry(&self, at: &Cut) -> Result<Option<SignedEntry>, LedgerError> {
        let mut query =
            self.db.prepare_cached("SELECT envelope FROM entries WHERE author = ?1 AND epoch = ?2 AND seq = ?3")?;
        let seq = i64::try_from(at.seq).unwrap_or(i64::MAX);
        let text: Option<String> =
            query.query_row(params![at.author.to_string(), at.epoch, seq], |row| row.get(0)).optional()?;
        let Some(text) = text else {
            return Ok(None);
        };
        let signed = SignedEntry::open(self.org, read(&text)?).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        Ok(Some(signed))
    }

    pub fn entry_digest(&self, at: &Cut) -> Result<Option<Digest>, LedgerError> {
        let mut query =
            self.db.prepare_cached("SELECT digest FROM entries WHERE author = ?1 AND epoch = ?2 AND seq = ?3")?;
        let seq = i64::try_from(at.seq).unwrap_or(i64::MAX);
        let text: Option<String> =
            query.query_row(params![at.author.to_string(), at.epoch, seq], |row| row.get(0)).optional()?;
        text.map(|text| text.parse().map_err(|_| LedgerError::Damaged("a digest".to_owned()))).transpose()
    }

    /// It was shown a future that it does not have; only a deliberate restore takes that back.
    pub fn mark_behind(&self) -> Result<(), LedgerError> {
        self.db.execute("INSERT OR REPLACE INTO meta VALUES ('behind', 'yes')", [])?;
        Ok(())
    }

    pub fn is_behind(&self) -> Result<bool, LedgerError> {
        let mut query = self.db.prepare("SELECT 1 FROM meta WHERE key = 'behind'")?;
        Ok(query.exists([])?)
    }

    // ---- the issuance log and observations: never authority ----

    pub fn issuance(&self, node_key: Digest, principal: &Principal) -> Result<Option<Issuance>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT value FROM issuances WHERE node_key = ?1 AND principal = ?2")?;
        let text: Option<String> =
            query.query_row([node_key.to_string(), principal.to_string()], |row| row.get(0)).optional()?;
        text.map(|text| read(&text)).transpose()
    }

    pub fn log_issuance(&self, node_key: Digest, principal: &Principal, row: &Issuance) -> Result<(), LedgerError> {
        self.db.prepare_cached("INSERT OR REPLACE INTO issuances VALUES (?1, ?2, ?3)")?.execute([
            node_key.to_string(),
            principal.to_string(),
            json(row),
        ])?;
        Ok(())
    }

    pub fn log_seen(&self, node_key: Digest, at: Timestamp) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("INSERT OR REPLACE INTO seen VALUES (?1, ?2)")?
            .execute(params![node_key.to_string(), at.unix()])?;
        Ok(())
    }

    pub fn seen(&self, node_key: Digest) -> Result<Option<Timestamp>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT at FROM seen WHERE node_key = ?1")?;
        Ok(query.query_row([node_key.to_string()], |row| row.get(0)).optional()?.map(Timestamp::from_unix))
    }

    /// It stays for good: only the end of the node key ends it.
    pub fn raise_alarm(&self, node_key: Digest, at: Timestamp, alarm: &Alarm) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("INSERT INTO alarms VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET why = excluded.why")?
            .execute(params![node_key.to_string(), at.unix(), json(alarm)])?;
        Ok(())
    }

    pub fn alarm(&self, node_key: Digest) -> Result<Option<Alarm>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT why FROM alarms WHERE node_key = ?1")?;
        let text: Option<String> = query.query_row([node_key.to_string()], |row| row.get(0)).optional()?;
        Ok(text.map(|text| serde_json::from_str(&text).unwrap_or(Alarm { why: text, conflict: None })))
    }

    pub fn observe(&self, at: Timestamp, source: &str, what: &str) -> Result<(), LedgerError> {
        // A stranger's words may be in it.
        let what: String = what.chars().take(200).collect();
        self.db.prepare_cached("INSERT INTO observations (at, source, what) VALUES (?1, ?2, ?3)")?.execute(params![
            at.unix(),
            source,
            what
        ])?;
        self.db
            .prepare_cached("DELETE FROM observations WHERE id <= (SELECT MAX(id) FROM observations) - ?1")?
            .execute([MAX_OBSERVATIONS])?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<Connection, LedgerError> {
    let db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, LedgerError> {
    serde_json::from_str(text).map_err(|why| LedgerError::Damaged(why.to_string()))
}
