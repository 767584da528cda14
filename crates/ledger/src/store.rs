//! The ledger on disk: entries, what came beside them, issuance log, observations. SQLite, one writer.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use ground::steady::Steady;
use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::ClassLeaf;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use org::enroll::renew::{Conflict, Issuance};
use org::founding::Founding;
use org::ledger::entry::SignedEntry;
use org::ledger::fold::Leaves;
use org::ledger::replica::carried;
use org::state::State;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::damage::{Damage, Part};
use crate::error::LedgerError;
use crate::migrate;

/// Observations are kept for people to look at, not for ever.
pub const MAX_OBSERVATIONS: usize = 10_000;

/// So many heads are whole in memory while a ledger is read.
const MOST_WHOLE: usize = 128;

/// Someone may be reading the file at the moment.
const BUSY: Duration = Duration::from_secs(5);

/// Why a node key gets nothing any more, until operators end it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    pub why: String,
    /// Absent in what was written before evidence was kept.
    pub conflict: Option<Conflict>,
    /// The gateway on whose word it rests, if not on this one's: it counts as long as that one has a mandate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_by: Option<NodeName>,
    /// The same, of what was known before: it takes two words to contradict each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_by: Option<NodeName>,
}

impl Alarm {
    /// On this gateway's own word.
    pub const fn own(why: String, conflict: Option<Conflict>) -> Self {
        Self { why, conflict, told_by: None, known_by: None }
    }

    /// The other gateways on whose words it rests.
    pub fn tellers(&self) -> impl Iterator<Item = &NodeName> {
        self.told_by.iter().chain(&self.known_by)
    }
}

/// One row of the entries' table.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    pub id: i64,
    /// Voice, place and digest, as they are looked up.
    pub place: (String, i64, String),
    pub envelope: String,
}

#[derive(Debug)]
pub struct Ledger {
    pub(crate) db: Connection,
    pub(crate) org: OrgId,
    /// By it delays run; nothing where nobody waits for one.
    pub(crate) steady: Option<Steady>,
}

impl Ledger {
    /// Makes the file and its tables; the founding record goes in first.
    pub fn create(path: &Path, founding: &Founding) -> Result<Self, LedgerError> {
        // SQLite gives its side files the mode of the main one.
        let empty = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        empty.map_err(|why| Damage::NotCreated { path: path.to_owned(), why })?;
        let db = open(path)?;
        migrate::create(&db)?;
        db.execute("INSERT INTO meta VALUES ('founding', ?1)", [json(&founding.envelope)])?;
        Ok(Self { db, org: founding.id, steady: path.parent().map(Steady::of) })
    }

    /// Opens the file, and brings it up to date if it is an older one. The caller holds the gateway's lock.
    pub fn open(path: &Path) -> Result<(Self, Founding), LedgerError> {
        if !path.exists() {
            return Err(Damage::Missing(path.to_owned()).into());
        }
        let db = open(path)?;
        migrate::bring_up(&db, path)?;
        let envelope: String = db.query_row("SELECT value FROM meta WHERE key = 'founding'", [], |row| row.get(0))?;
        let founding = Founding::open(read(&envelope)?).map_err(Damage::Founding)?;
        Ok((Self { db, org: founding.id, steady: path.parent().map(Steady::of) }, founding))
    }

    /// Copies the ledger of one moment, also while a gateway has it open and writes: SQLite lets readers of a WAL see
    /// one moment, and keeps them and the writer out of each other's way.
    pub fn snapshot(path: &Path, to: &Path) -> Result<(), LedgerError> {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        db.busy_timeout(BUSY)?;
        migrate::version(&db, path)?;
        migrate::copy(&db, to)
    }

    /// What it says, as of now. What lies here was checked when it came; `check` asks again.
    pub fn state(&self, founding: &Founding, now: Timestamp) -> Result<State, LedgerError> {
        let mut state = State::of(founding);
        state.replica.sights = self.sights()?;
        for envelope in self.objects()? {
            state.remember(&envelope).map_err(Damage::Envelope)?;
        }
        let mut most = MOST_WHOLE;
        self.each_entry(|signed| {
            state.remember_entry(&signed);
            if state.replica.heads.whole_count() > most {
                state.shorten(now);
                // Those that nothing leads to stay whole: whoever sows them does not make each entry cost as much.
                most = MOST_WHOLE.max(state.replica.heads.whole_count() * 2);
            }
        })?;
        self.conclude(&mut state, now)?;
        Ok(state)
    }

    fn each_entry(&self, mut act: impl FnMut(SignedEntry)) -> Result<(), LedgerError> {
        let mut query = self.db.prepare("SELECT id, envelope FROM entries ORDER BY id")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (id, text): (i64, String) = (row.get(0)?, row.get(1)?);
            let envelope = serde_json::from_str(&text).map_err(|why| Part::Entry(id).is(why))?;
            act(SignedEntry::remember(self.org, envelope).map_err(|why| Part::Entry(id).is(why))?);
        }
        Ok(())
    }

    /// Heads by their digests, as they lie here.
    pub fn heads(&self, wanted: &BTreeSet<Digest>) -> Result<Vec<Envelope>, LedgerError> {
        let is_wanted = |it: &&Envelope| it.kind() == Head::KIND && wanted.contains(&it.digest());
        let mut found: Vec<Envelope> = self.objects()?.iter().filter(is_wanted).cloned().collect();
        self.each_entry(|signed| found.extend(carried(&signed.entry.action).filter(is_wanted).cloned()))?;
        Ok(found)
    }

    /// Old heads are shortened in memory. One that is to be judged by again, since somebody went round the newer ones or a
    /// change of signers names it, is read again.
    pub fn bring_back_heads(&self, state: &mut State, now: Timestamp) -> Result<(), LedgerError> {
        let mut wanted = state.wanting(now);
        // Which others are wanted is known once the one in force is here.
        while !wanted.is_empty() {
            self.heads(&wanted)?.iter().for_each(|head| state.replica.bring_back(head));
            let more = state.wanting(now);
            if more == wanted {
                return Err(Damage::NoHead.into());
            }
            wanted = more;
        }
        Ok(())
    }

    /// How far it is written: whoever read it, and finds the same again, need not read it again.
    pub fn extent(&self) -> Result<(i64, i64), LedgerError> {
        let extent = "SELECT (SELECT coalesce(max(id), 0) FROM entries), (SELECT count(*) FROM objects)";
        Ok(self.db.query_row(extent, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// Judges what came, with the members' map of the head in force, if it is here.
    pub fn conclude(&self, state: &mut State, now: Timestamp) -> Result<(), LedgerError> {
        self.conclude_with(state, now, |_| None)
    }

    /// The same for whoever has read a map already.
    pub fn conclude_with(
        &self,
        state: &mut State,
        now: Timestamp,
        at_hand: impl FnOnce(Digest) -> Option<(Leaves, Vec<ClassLeaf>)>,
    ) -> Result<(), LedgerError> {
        self.keep_time(state, now);
        self.bring_back_heads(state, now)?;
        let root = state.root_at(now).filter(|root| !state.replica.maps.contains_key(root));
        if let Some(root) = root {
            let leaves = at_hand(root).map_or_else(|| self.leaves(root), |leaves| Ok(Some(leaves)))?;
            if let Some((leaves, classes)) = leaves {
                state.take_map(root, leaves, classes);
            }
        }
        state.conclude(now);
        state.replica.shorten(&state.judged.ground);
        Ok(())
    }

    /// To be asked before something is taken that counts from its first sight.
    pub fn keep_time(&self, state: &mut State, now: Timestamp) {
        state.replica.ahead = self.steady.as_ref().map_or(0, |steady| steady.ahead(now));
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

    // ---- entries, and what came beside them ----

    /// Nothing if it is here already.
    pub fn add_entry(&self, signed: &SignedEntry) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("INSERT OR IGNORE INTO entries (voice, seq, digest, envelope) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                signed.entry.voice.to_string(),
                i64::try_from(signed.entry.seq).unwrap_or(i64::MAX),
                signed.digest.to_string(),
                json(&signed.envelope)
            ])?;
        Ok(())
    }

    /// Something that operators signed and no entry here carries, with all signatures that came.
    pub fn add_object(&self, envelope: &Envelope) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("INSERT OR REPLACE INTO objects VALUES (?1, ?2)")?
            .execute([envelope.digest().to_string(), json(envelope)])?;
        Ok(())
    }

    pub fn objects(&self) -> Result<Vec<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT envelope FROM objects ORDER BY digest")?;
        let rows = query.query_map([], |row| row.get::<_, String>(0))?;
        rows.map(|row| read(&row?)).collect()
    }

    /// They were written into a chain.
    pub fn forget_objects(&self) -> Result<(), LedgerError> {
        self.db.execute("DELETE FROM objects", [])?;
        Ok(())
    }

    /// Every entry in order of arrival.
    pub fn all_entries(&self) -> Result<Vec<SignedEntry>, LedgerError> {
        let entries = self.entries()?.into_iter();
        let opened = entries.map(|(_, envelope)| SignedEntry::remember(self.org, envelope));
        opened.map(|opened| Ok(opened.map_err(Damage::Envelope)?)).collect()
    }

    // ---- for `check` ----

    pub(crate) fn check_structure(&self) -> Result<(), LedgerError> {
        let found: String = self.db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(Damage::Structure(found).into());
        }
        // SQLite believes what the file says of its own tables.
        match migrate::odd_table(&self.db)? {
            Some(name) => Err(Damage::Structure(format!("`{name}` is another table than this program makes")).into()),
            None => Ok(()),
        }
    }

    pub(crate) fn stored_entries(&self, after: i64) -> Result<Vec<StoredEntry>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, voice, seq, digest, envelope FROM entries WHERE id > ?1 ORDER BY id LIMIT 1000",
        )?;
        let rows = query.query_map([after], |row| {
            let place = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(StoredEntry { id: row.get(0)?, place, envelope: row.get(4)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(crate) fn issuance_rows(&self) -> Result<Vec<(String, String)>, LedgerError> {
        let mut query = self.db.prepare("SELECT principal, value FROM issuances")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// In order of arrival, each with its row number.
    fn entries(&self) -> Result<Vec<(u64, Envelope)>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT id, envelope FROM entries WHERE id > 0 ORDER BY id")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        let mut out = Vec::new();
        for row in rows {
            let (id, text) = row?;
            let envelope = serde_json::from_str(&text).map_err(|why| Part::Entry(id).is(why))?;
            out.push((u64::try_from(id).unwrap_or_default(), envelope));
        }
        Ok(out)
    }

    /// The entry with this digest.
    pub fn entry(&self, digest: Digest) -> Result<Option<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT envelope FROM entries WHERE digest = ?1")?;
        let text: Option<String> = query.query_row([digest.to_string()], |row| row.get(0)).optional()?;
        let Some(envelope) = text.map(|text| read::<Envelope>(&text)).transpose()? else {
            return Ok(None);
        };
        if envelope.digest() == digest { Ok(Some(envelope)) } else { Err(Damage::AnotherEntry(digest).into()) }
    }

    /// What stands at a place of a chain: one entry, unless the chain forks there.
    pub fn entries_at(&self, voice: PublicKey, seq: u64) -> Result<Vec<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT envelope FROM entries WHERE voice = ?1 AND seq = ?2")?;
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let rows = query.query_map(params![voice.to_string(), seq], |row| row.get::<_, String>(0))?;
        rows.map(|row| read(&row?)).collect()
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

    /// Every node key with an alarm.
    pub fn alarmed(&self) -> Result<BTreeSet<Digest>, LedgerError> {
        let mut query = self.db.prepare("SELECT node_key FROM alarms")?;
        let keys = query.query_map([], |row| row.get::<_, String>(0))?;
        keys.map(|key| Ok(key?.parse().map_err(|_| Damage::Alarm)?)).collect()
    }

    pub fn alarm(&self, node_key: Digest) -> Result<Option<Alarm>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT why FROM alarms WHERE node_key = ?1")?;
        let text: Option<String> = query.query_row([node_key.to_string()], |row| row.get(0)).optional()?;
        Ok(text.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| Alarm::own(text, None))))
    }

    /// When, from where, what; the oldest beyond a bound are forgotten.
    pub fn observe(&self, refused: &[(Timestamp, String, String)]) -> Result<(), LedgerError> {
        let mut put = self.db.prepare_cached("INSERT INTO observations (at, source, what) VALUES (?1, ?2, ?3)")?;
        for (at, source, what) in refused {
            put.execute(params![at.unix(), source, what])?;
        }
        self.db
            .prepare_cached("DELETE FROM observations WHERE id <= (SELECT MAX(id) FROM observations) - ?1")?
            .execute([i64::try_from(MAX_OBSERVATIONS).unwrap_or(i64::MAX)])?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<Connection, LedgerError> {
    let db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    db.busy_timeout(BUSY)?;
    // Keys are digests, so that every commit touches pages all over the file: keep them at hand, and carry them over
    // from the log (at most 32 MB) only now and then.
    db.pragma_update(None, "cache_size", -16_384)?;
    db.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, LedgerError> {
    Ok(serde_json::from_str(text).map_err(Damage::Json)?)
}
