//! First sights (first-seen timestamps): when this very replica first saw each step to other signers. Its own clock
//! says so, once: no date in an entry moves it.

use identity::id::Digest;
use identity::time::Timestamp;
use org::ledger::step::Sights;
use rusqlite::params;

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::store::Ledger;

impl Ledger {
    pub fn sights(&self) -> Result<Sights, LedgerError> {
        let mut query = self.db.prepare("SELECT step, since FROM sights")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let bad = |_| LedgerError::from(Damage::Sight);
        rows.map(|row| {
            let (step, since) = row?;
            Ok((step.parse().map_err(bad)?, Timestamp::from_unix(since)))
        })
        .collect()
    }

    /// Writes down those that are new; none ever moves.
    pub fn keep_sights(&self, sights: &Sights) -> Result<(), LedgerError> {
        let mut put = self.db.prepare_cached("INSERT OR IGNORE INTO sights (step, since) VALUES (?1, ?2)")?;
        for (step, since) in sights {
            put.execute(params![step.to_string(), since.unix()])?;
        }
        Ok(())
    }

    /// It was seen earlier than its copy knew.
    pub fn date_sight(&self, step: Digest, since: Timestamp) -> Result<(), LedgerError> {
        let dated = "UPDATE sights SET since = min(since, ?2) WHERE step = ?1";
        self.db.execute(dated, params![step.to_string(), since.unix()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use identity::id::OrgId;
    use identity::time::Seconds;
    use rusqlite::Connection;

    use super::*;
    use crate::migrate;

    #[test]
    fn the_first_sight_stays_and_a_later_one_moves_nothing() {
        let db = Connection::open_in_memory().unwrap();
        migrate::create(&db).unwrap();
        let ledger = Ledger { db, org: OrgId([0; 32]), steady: None };
        let (one, first) = (Digest([1; 32]), Timestamp::from_unix(1_000_000));
        for at in [first, first + Seconds::DAY, first - Seconds::DAY] {
            ledger.keep_sights(&[(one, at)].into()).unwrap();
            assert_eq!(ledger.sights().unwrap(), [(one, first)].into());
        }
    }
}
