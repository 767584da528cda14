//! When this very gateway first saw each recovery. Its own clock says so, once: no date in an entry moves it.

use identity::id::Digest;
use identity::time::Timestamp;
use rusqlite::{Connection, params};

use crate::error::LedgerError;
use crate::store::Ledger;

impl Ledger {
    /// Since when a recovery is known here: from now on, if it was not.
    pub fn first_sight(&self, recovery: Digest, now: Timestamp) -> Result<Timestamp, LedgerError> {
        first_sight(&self.db, recovery, now)
    }
}

fn first_sight(db: &Connection, recovery: Digest, now: Timestamp) -> Result<Timestamp, LedgerError> {
    let named = recovery.to_string();
    let new = "INSERT OR IGNORE INTO sights (recovery, since) VALUES (?1, ?2)";
    db.prepare_cached(new)?.execute(params![named, now.unix()])?;
    let mut known = db.prepare_cached("SELECT since FROM sights WHERE recovery = ?1")?;
    Ok(Timestamp::from_unix(known.query_row([named], |row| row.get(0))?))
}

#[cfg(test)]
mod tests {
    use identity::time::Seconds;

    use super::*;
    use crate::migrate;

    #[test]
    fn the_first_sight_stays_and_a_later_one_moves_nothing() {
        let db = Connection::open_in_memory().unwrap();
        migrate::create(&db).unwrap();
        let (one, first) = (Digest([1; 32]), Timestamp::from_unix(1_000_000));
        assert_eq!(first_sight(&db, one, first).unwrap(), first);
        for at in [first + Seconds::DAY, first - Seconds::DAY] {
            assert_eq!(first_sight(&db, one, at).unwrap(), first);
        }
        assert_eq!(first_sight(&db, Digest([2; 32]), first + Seconds::DAY).unwrap(), first + Seconds::DAY);
    }
}
