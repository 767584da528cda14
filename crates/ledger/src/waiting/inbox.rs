//! What waits for more signatures, as each signer left it for the others: kept for whoever must look, never authority.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::time::Timestamp;
use rusqlite::params;

use crate::damage::Part;
use crate::error::LedgerError;
use crate::store::Ledger;

/// One signer's copy of something that waits. Each has rows of their own, and nobody changes another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// What it is called by, whoever signed it.
    pub digest: Digest,
    pub by: PublicKey,
    pub at: Timestamp,
    pub until: Timestamp,
    pub objects: Vec<Envelope>,
}

impl InboxRow {
    /// As it is stored.
    fn text(&self) -> Result<String, LedgerError> {
        serde_json::to_string(&self.objects).map_err(|why| Part::Inbox.is(why).into())
    }
}

/// In place of what the same signer left of the same.
pub fn leave(ledger: &Ledger, row: &InboxRow) -> Result<(), LedgerError> {
    ledger
        .db
        .prepare_cached(
            "INSERT OR REPLACE INTO inbox (digest, signer, at, until, objects) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![row.digest.to_string(), row.by.to_string(), row.at.unix(), row.until.unix(), row.text()?])?;
    Ok(())
}

/// How many other things this signer left here, and how many bytes those are.
pub fn left_beside(ledger: &Ledger, by: PublicKey, digest: Digest) -> Result<(u64, u64), LedgerError> {
    let mut query = ledger.db.prepare_cached(
        "SELECT COUNT(*), COALESCE(SUM(LENGTH(objects)), 0) FROM inbox WHERE signer = ?1 AND digest <> ?2",
    )?;
    let unsigned = |value: i64| u64::try_from(value).unwrap_or_default();
    Ok(query
        .query_row([by.to_string(), digest.to_string()], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))?)
}

/// Those that came after the one with this number, in the order in which they came, with their numbers.
pub fn left_after(ledger: &Ledger, after: u64, most: u32) -> Result<Vec<(u64, InboxRow)>, LedgerError> {
    let mut query = ledger.db.prepare_cached(
        "SELECT number, digest, signer, at, until, objects FROM inbox WHERE number > ?1 ORDER BY number LIMIT ?2",
    )?;
    let mut rows = query.query(params![i64::try_from(after).unwrap_or(i64::MAX), most])?;
    let mut inbox = Vec::new();
    while let Some(row) = rows.next()? {
        let number = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        let (digest, by, objects): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(5)?);
        let (at, until) = (Timestamp::from_unix(row.get(3)?), Timestamp::from_unix(row.get(4)?));
        let read = || {
            let objects = serde_json::from_str(&objects).ok()?;
            Some(InboxRow { digest: digest.parse().ok()?, by: by.parse().ok()?, at, until, objects })
        };
        // It can be left again: one that was damaged holds nothing up.
        if let Some(row) = read() {
            inbox.push((number, row));
        } else {
            tracing::error!(number, "something that waits for signatures is damaged and was left out");
        }
    }
    Ok(inbox)
}

pub fn drop_left(ledger: &Ledger, number: u64) -> Result<(), LedgerError> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    ledger.db.prepare_cached("DELETE FROM inbox WHERE number = ?1")?.execute([number])?;
    Ok(())
}
