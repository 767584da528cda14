//! Bundles that were shown again by another machine: an observation, never authority.

use identity::id::InviteId;
use identity::time::Timestamp;
use rusqlite::{Connection, params};
use wire::control::Reuse;

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::store::Ledger;

/// Whoever has an old bundle can draw new keys without end: so many of them are kept of one bundle.
const MOST: u32 = 16;

impl Ledger {
    /// The first of them are kept; one that comes again is counted.
    pub fn note_reuse(&self, invite: InviteId, reuse: &Reuse) -> Result<(), LedgerError> {
        note(&self.db, invite, reuse)
    }

    pub fn reuses(&self, invite: InviteId) -> Result<Vec<Reuse>, LedgerError> {
        read(&self.db, invite)
    }
}

fn note(db: &Connection, invite: InviteId, reuse: &Reuse) -> Result<(), LedgerError> {
    let again = "UPDATE reuses SET times = times + 1, source = ?3 WHERE invite = ?1 AND node_key = ?2";
    let (invite, key, source) = (invite.to_string(), reuse.node_key.to_string(), reuse.source.to_string());
    if db.prepare_cached(again)?.execute(params![invite, key, source])? > 0 {
        return Ok(());
    }
    let first = "INSERT INTO reuses SELECT ?1, ?2, ?3, ?4, ?5, 1
                 WHERE (SELECT COUNT(*) FROM reuses WHERE invite = ?1) < ?6";
    let mut put = db.prepare_cached(first)?;
    put.execute(params![invite, key, source, reuse.at.unix(), reuse.name.to_string(), MOST])?;
    Ok(())
}

fn read(db: &Connection, invite: InviteId) -> Result<Vec<Reuse>, LedgerError> {
    let all = "SELECT node_key, source, at, name, times FROM reuses WHERE invite = ?1 ORDER BY at, node_key";
    let mut query = db.prepare_cached(all)?;
    let rows = query.query_map([invite.to_string()], |row| {
        let (key, source, name) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(3)?);
        Ok((key, source, row.get::<_, i64>(2)?, name, row.get::<_, u32>(4)?))
    })?;
    rows.map(|row| {
        let (key, source, at, name, times) = row?;
        Ok(Reuse {
            at: Timestamp::from_unix(at),
            source: source.parse().map_err(|_| Damage::Reuse)?,
            name: name.parse().map_err(|_| Damage::Reuse)?,
            node_key: key.parse().map_err(|_| Damage::Reuse)?,
            times,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use identity::id::Digest;

    use super::*;
    use crate::migrate;

    fn reuse(n: u8, at: i64) -> Reuse {
        Reuse {
            at: Timestamp::from_unix(at),
            source: [10, 0, 0, n].into(),
            name: "web-1".parse().unwrap(),
            node_key: Digest([n; 32]),
            times: 1,
        }
    }

    #[test]
    fn the_first_are_kept_and_those_who_come_again_are_counted() {
        let db = Connection::open_in_memory().unwrap();
        migrate::create(&db).unwrap();
        let (one, other) = (InviteId([1; 16]), InviteId([2; 16]));
        for n in 0..100 {
            note(&db, one, &reuse(n, 1_000 + i64::from(n))).unwrap();
        }
        note(&db, one, &reuse(0, 9_000)).unwrap();
        let kept = read(&db, one).unwrap();
        assert_eq!(kept.len(), usize::try_from(MOST).unwrap());
        assert_eq!(kept[0], Reuse { times: 2, ..reuse(0, 1_000) }, "when it was first seen stays");
        assert!(read(&db, other).unwrap().is_empty());
    }
}
