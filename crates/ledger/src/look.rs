//! Looking into a ledger's file: without its lock, beside a running gateway or not, and without changing anything.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ground::clock;
use org::founding::Founding;
use org::state::State;
use rusqlite::{Connection, OpenFlags};

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::migrate;
use crate::store::{Ledger, read};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub entries: i64,
    pub alarms: i64,
    /// Machines that wait for a person.
    pub waiting: i64,
    /// What holds the gateway back.
    pub behind: bool,
    pub restored: bool,
    /// The version of its tables.
    pub version: u32,
}

impl Ledger {
    /// What the ledger says now.
    pub fn glance(path: &Path) -> Result<State, LedgerError> {
        let db = look(path)?;
        migrate::version(&db, path)?;
        state(db)
    }

    pub fn count(path: &Path) -> Result<Counts, LedgerError> {
        count(&look(path)?, path)
    }

    /// Reads the whole file: is it sound, and what does it say?
    pub fn examine(path: &Path) -> Result<(State, Counts), LedgerError> {
        if !path.exists() {
            return Err(Damage::Missing(path.to_owned()).into());
        }
        let db = look(path)?;
        migrate::version(&db, path)?;
        let sound: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(Damage::Structure(sound).into());
        }
        let counts = count(&db, path)?;
        Ok((state(db)?, counts))
    }
}

/// Opens the file to read. If nobody has it open, it is taken as it lies there: else SQLite would put files beside it.
fn look(path: &Path) -> Result<Connection, LedgerError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if Path::new(&log).exists() {
        return Ok(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let write = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let name: String = path.as_os_str().as_bytes().iter().copied().map(write).collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)?)
}

fn state(db: Connection) -> Result<State, LedgerError> {
    let envelope: String = db.query_row("SELECT value FROM meta WHERE key = 'founding'", [], |row| row.get(0))?;
    let founding = Founding::open(read(&envelope)?).map_err(Damage::Founding)?;
    Ledger { db, org: founding.id, steady: None }.state(&founding, clock::now())
}

fn count(db: &Connection, path: &Path) -> Result<Counts, LedgerError> {
    let version = migrate::version(db, path)?;
    let one = |query: &str| db.query_row(query, [], |row| row.get::<_, i64>(0));
    // Entries are never removed, so the last number is how many there are.
    let entries = one("SELECT COALESCE(MAX(id), 0) FROM entries")?;
    let marked = |mark: &str| one(&format!("SELECT COUNT(*) FROM marks WHERE name = '{mark}'"));
    let (behind, restored) = (marked("behind")? > 0, marked("restored")? > 0);
    let now = clock::now().unix();
    let waiting = one(&format!("SELECT COUNT(*) FROM claims WHERE until > {now}"))?;
    Ok(Counts { entries, alarms: one("SELECT COUNT(*) FROM alarms")?, waiting, behind, restored, version })
}
