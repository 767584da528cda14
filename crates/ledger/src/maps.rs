//! Members' maps by their roots: each as the digests of its leaves, or as what it differs in from another.

use identity::id::Digest;
use identity::members::change::MapChange;
use rusqlite::{OptionalExtension as _, params};

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::store::Ledger;

/// So many changes lie between a map and one that is kept whole, at most: reading it goes through them all.
const DEEPEST: u32 = 64;

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Ledger {
    /// Leaves of a map from a place on. Whoever begins at its beginning begins it anew.
    pub fn put_map(&self, root: Digest, from: u64, leaves: &[Digest]) -> Result<(), LedgerError> {
        if from == 0 {
            self.db.prepare_cached("DELETE FROM maps WHERE root = ?1")?.execute([root.to_string()])?;
        }
        let mut put = self.db.prepare_cached("INSERT OR REPLACE INTO maps VALUES (?1, ?2, ?3)")?;
        for (place, leaf) in (from..).zip(leaves) {
            put.execute(params![root.to_string(), number(place), leaf.to_string()])?;
        }
        Ok(())
    }

    /// A map by what it differs in from one that is here. The caller has computed its root. One that is here whole stays so:
    /// what differs from it may lie behind the other.
    pub fn put_map_change(&self, root: Digest, base: Digest, change: &MapChange) -> Result<(), LedgerError> {
        if !self.whole_map(root, 0, 1)?.is_empty() {
            return Ok(());
        }
        let depth = self.change_of(base)?.map_or(0, |(_, depth, _)| depth) + 1;
        if depth > DEEPEST || root == base {
            let leaves = self.map(base, 0, usize::MAX)?;
            let no_change = || Damage::NoChange { root, base: Some(base) };
            return self.put_map(root, 0, &change.apply(leaves).ok_or_else(no_change)?);
        }
        let json = serde_json::to_string(change).unwrap_or_default();
        self.db.prepare_cached("INSERT OR IGNORE INTO map_changes VALUES (?1, ?2, ?3, ?4)")?.execute(params![
            root.to_string(),
            base.to_string(),
            depth,
            json
        ])?;
        Ok(())
    }

    /// Digests of a map's leaves, from a place on: always in the same order, which is not that of their keys.
    pub fn map(&self, root: Digest, from: u64, limit: usize) -> Result<Vec<Digest>, LedgerError> {
        let (mut changes, mut at, mut depth) = (Vec::new(), root, u32::MAX);
        while let Some((base, found, change)) = self.change_of(at)? {
            // A base is always nearer to a whole one.
            if found >= depth {
                return Err(Damage::Circle(root).into());
            }
            changes.push(change);
            (at, depth) = (base, found);
        }
        if changes.is_empty() {
            return self.whole_map(root, from, limit);
        }
        let no_change = || Damage::NoChange { root, base: None };
        let mut leaves = self.whole_map(at, 0, usize::MAX)?;
        for change in changes.iter().rev() {
            leaves = change.apply(leaves).ok_or_else(no_change)?;
        }
        Ok(leaves.into_iter().skip(usize::try_from(from).unwrap_or(usize::MAX)).take(limit).collect())
    }

    fn whole_map(&self, root: Digest, from: u64, limit: usize) -> Result<Vec<Digest>, LedgerError> {
        let mut query =
            self.db.prepare_cached("SELECT leaf FROM maps WHERE root = ?1 AND place >= ?2 ORDER BY place LIMIT ?3")?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map(params![root.to_string(), number(from), limit], |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(row?.parse().map_err(|_| Damage::Leaf)?)).collect()
    }

    fn change_of(&self, root: Digest) -> Result<Option<(Digest, u32, MapChange)>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT base, depth, change FROM map_changes WHERE root = ?1")?;
        let row =
            |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, row.get::<_, String>(2)?));
        let Some((base, depth, change)) = query.query_row([root.to_string()], row).optional()? else {
            return Ok(None);
        };
        let bad = || Damage::Difference(root);
        let base = base.parse().map_err(|_| bad())?;
        Ok(Some((base, depth, serde_json::from_str(&change).map_err(|_| bad())?)))
    }

    /// The map that was last read or made here: others are fetched by what they differ in from it.
    pub fn last_map(&self) -> Result<Option<Digest>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT value FROM meta WHERE key = 'last_map'")?;
        let text: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    pub fn keep_last_map(&self, root: Digest) -> Result<(), LedgerError> {
        self.db.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('last_map', ?1)")?.execute([root.to_string()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use identity::id::OrgId;
    use rusqlite::Connection;

    use super::*;
    use crate::migrate;

    fn digest(n: u32) -> Digest {
        Digest::of(&n.to_be_bytes())
    }

    #[test]
    fn a_map_that_comes_back_does_not_lead_to_itself() {
        let db = Connection::open_in_memory().unwrap();
        migrate::create(&db).unwrap();
        let ledger = Ledger { db, org: OrgId([0; 32]), steady: None };
        let (one, two) = (digest(1_000), digest(1_001));
        ledger.put_map(one, 0, &[digest(1), digest(2)]).unwrap();
        ledger.put_map_change(two, one, &MapChange { come: vec![digest(3)], go: vec![digest(2)] }).unwrap();
        ledger.put_map_change(one, two, &MapChange { come: vec![digest(2)], go: vec![digest(3)] }).unwrap();
        assert_eq!(ledger.map(one, 0, usize::MAX).unwrap().len(), 2);
        assert!(ledger.map(two, 0, usize::MAX).unwrap().contains(&digest(3)));
    }

    #[test]
    fn a_map_is_read_back_however_many_changes_lie_behind_it() {
        let db = Connection::open_in_memory().unwrap();
        migrate::create(&db).unwrap();
        let ledger = Ledger { db, org: OrgId([0; 32]), steady: None };
        let leaves: Vec<Digest> = (0..10).map(digest).collect();
        let root = |n: u32| digest(1_000 + n);
        ledger.put_map(root(0), 0, &leaves).unwrap();
        let mut now: BTreeSet<Digest> = leaves.into_iter().collect();
        for n in 1..200 {
            let change = MapChange { come: vec![digest(100 + n)], go: vec![digest(if n < 10 { n } else { 91 + n })] };
            now.extend(&change.come);
            for gone in &change.go {
                assert!(now.remove(gone));
            }
            ledger.put_map_change(root(n), root(n - 1), &change).unwrap();
            let read = ledger.map(root(n), 0, usize::MAX).unwrap();
            assert_eq!(read.iter().copied().collect::<BTreeSet<_>>(), now, "{n}");
            assert_eq!(ledger.map(root(n), 3, 4).unwrap(), read[3..7]);
        }
        let whole = "SELECT count(DISTINCT root) FROM maps";
        let whole: u32 = ledger.db.query_row(whole, [], |row| row.get(0)).unwrap();
        assert_eq!(whole, 4, "one in so many is kept whole");
    }
}
