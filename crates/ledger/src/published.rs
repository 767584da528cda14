//! What operators published to nodes, kept by digest, and the last report of each node.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::members::{ClassLeaf, Leaf, MembersMap};
use identity::time::Timestamp;
use org::ledger::fold::Leaves;
use rusqlite::{OptionalExtension as _, params};

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::store::Ledger;

/// One node's last report, and its number among all.
#[derive(Debug, Clone)]
pub struct StoredReport {
    pub number: u64,
    pub received_at: Timestamp,
    pub report: Envelope,
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Ledger {
    pub fn has_blob(&self, digest: Digest) -> Result<bool, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?1")?;
        Ok(query.exists([digest.to_string()])?)
    }

    /// Its digest says that these are the bytes that were published.
    pub fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT bytes FROM blobs WHERE digest = ?1")?;
        let bytes: Option<Vec<u8>> = query.query_row([digest.to_string()], |row| row.get(0)).optional()?;
        match bytes {
            Some(bytes) if Digest::of(&bytes) != digest => Err(Damage::AnotherObject(digest).into()),
            other => Ok(other),
        }
    }

    pub fn put_blob(&self, bytes: &[u8]) -> Result<(), LedgerError> {
        let digest = Digest::of(bytes).to_string();
        self.db.prepare_cached("INSERT OR IGNORE INTO blobs VALUES (?1, ?2)")?.execute(params![digest, bytes])?;
        Ok(())
    }

    /// A part of a blob. Whoever begins at its beginning begins it anew.
    pub fn put_part(&self, digest: Digest, from: u64, bytes: &[u8]) -> Result<(), LedgerError> {
        if from == 0 {
            self.drop_parts(digest)?;
        }
        self.db.prepare_cached("INSERT OR REPLACE INTO parts VALUES (?1, ?2, ?3)")?.execute(params![
            digest.to_string(),
            number(from),
            bytes
        ])?;
        Ok(())
    }

    /// All parts together, in their order.
    pub fn parts(&self, digest: Digest) -> Result<Vec<u8>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT bytes FROM parts WHERE digest = ?1 ORDER BY place")?;
        let parts = query.query_map([digest.to_string()], |row| row.get::<_, Vec<u8>>(0))?;
        Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
    }

    pub fn drop_parts(&self, digest: Digest) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM parts WHERE digest = ?1")?.execute([digest.to_string()])?;
        Ok(())
    }

    /// The leaves of nodes and of classes in the map with this root, if it is here whole.
    pub fn leaves(&self, root: Digest) -> Result<Option<(Leaves, Vec<ClassLeaf>)>, LedgerError> {
        let (mut leaves, mut classes, mut all) = (Leaves::new(), Vec::new(), Vec::new());
        for value in self.map(root, 0, usize::MAX)? {
            let Some(leaf) = self.blob(value)?.and_then(|bytes| serde_json::from_slice::<Leaf>(&bytes).ok()) else {
                return Ok(None);
            };
            all.push((leaf.key(), value));
            match leaf {
                Leaf::Node(leaf) => drop(leaves.insert(leaf.name.clone(), leaf)),
                Leaf::Class(leaf) => classes.push(leaf),
            }
        }
        let whole = MembersMap::new(all).is_ok_and(|map| map.root() == root);
        Ok(whole.then_some((leaves, classes)))
    }

    /// A later report takes the place of the earlier one.
    pub fn put_report(
        &self,
        node_key: Digest,
        received_at: Timestamp,
        head: u64,
        report: &Envelope,
    ) -> Result<(), LedgerError> {
        let json = serde_json::to_string(report).unwrap_or_default();
        self.db
            .prepare_cached(
                "INSERT OR REPLACE INTO reports (node_key, received_at, head, report) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![node_key.to_string(), received_at.unix(), number(head), json])?;
        Ok(())
    }

    /// Reports in the order in which they came, after one of them.
    pub fn reports(&self, after: u64, limit: u32) -> Result<Vec<StoredReport>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT number, received_at, report FROM reports WHERE number > ?1 ORDER BY number LIMIT ?2",
        )?;
        let rows = query.query_map(params![number(after), limit], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut out = Vec::new();
        for row in rows {
            let (number, at, text) = row?;
            let (number, received_at) = (u64::try_from(number).unwrap_or_default(), Timestamp::from_unix(at));
            out.extend(readable(&text).map(|report| StoredReport { number, received_at, report }));
        }
        Ok(out)
    }

    /// The report of whoever has the highest head.
    pub fn highest_mark(&self) -> Result<Option<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT report FROM reports ORDER BY head DESC")?;
        for text in query.query_map([], |row| row.get::<_, String>(0))? {
            if let Some(report) = readable(&text?) {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}

/// A report is an observation, and the next one takes its place: one that was damaged holds nothing up.
fn readable(text: &str) -> Option<Envelope> {
    let report = serde_json::from_str(text);
    report.inspect_err(|why| tracing::error!(%why, "a node's report is damaged and was left out")).ok()
}
