//! What holds a gateway back, on disk: it was shown its own future, or it was restored from a backup.

use identity::head::Recorded;
use identity::time::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::damage::{Damage, Part};
use crate::error::LedgerError;
use crate::store::Ledger;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It was shown an entry of its own that it does not have.
    Behind,
    /// It was restored from a backup, and no other chain was begun since.
    Restored,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Restored => "restored",
        }
    }
}

/// Where a restored ledger came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoredFrom {
    /// The backup's file, as it was named.
    pub backup: String,
    pub made_at: Timestamp,
    pub restored_at: Timestamp,
}

impl Ledger {
    /// It lacks the entry at this place of its own chain.
    pub fn mark_behind(&self, at: Timestamp, lacks: Recorded) -> Result<(), LedgerError> {
        let detail = serde_json::to_string(&lacks).map_err(Damage::Json)?;
        self.mark(Mark::Behind, at, &detail)
    }

    /// The place that it lacks, if it does.
    pub fn behind(&self) -> Result<Option<Recorded>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT detail FROM marks WHERE name = ?1")?;
        let text: Option<String> = query.query_row([Mark::Behind.word()], |row| row.get(0)).optional()?;
        let damaged = |why| Part::Mark(Mark::Behind.word()).is(why).into();
        text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
    }

    pub fn clear_behind(&self) -> Result<(), LedgerError> {
        self.db.execute("DELETE FROM marks WHERE name = ?1", [Mark::Behind.word()])?;
        Ok(())
    }

    pub fn mark_restored(&self, origin: &RestoredFrom) -> Result<(), LedgerError> {
        let detail = serde_json::to_string(origin).map_err(Damage::Json)?;
        self.mark(Mark::Restored, origin.restored_at, &detail)
    }

    /// Where this ledger was restored from, while no other chain was begun.
    pub fn restored(&self) -> Result<Option<RestoredFrom>, LedgerError> {
        let mut query = self.db.prepare("SELECT detail FROM marks WHERE name = ?1")?;
        let details = query.query_map([Mark::Restored.word()], |row| row.get::<_, String>(0))?;
        let origin = details
            .map(|detail| Ok(serde_json::from_str(&detail?).map_err(|why| Part::Mark(Mark::Restored.word()).is(why))?));
        origin.last().transpose()
    }

    pub fn is_marked(&self, mark: Mark) -> Result<bool, LedgerError> {
        let mut query = self.db.prepare("SELECT 1 FROM marks WHERE name = ?1")?;
        Ok(query.exists([mark.word()])?)
    }

    /// Only what operators decided takes a mark back; it stands in the same commit.
    pub fn clear_marks(&self) -> Result<(), LedgerError> {
        self.db.execute("DELETE FROM marks", [])?;
        Ok(())
    }

    /// It was handed entries of its own: this is an older copy, and so is what it noted of SVIDs until then.
    pub fn note_set_back(&self, at: Timestamp) -> Result<(), LedgerError> {
        self.db.execute("INSERT OR REPLACE INTO meta VALUES ('set back', ?1)", [at.unix().to_string()])?;
        Ok(())
    }

    pub fn set_back_at(&self) -> Result<Option<Timestamp>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT value FROM meta WHERE key = 'set back'")?;
        let text: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
        let damaged = |_| Damage::SetBack.into();
        text.map(|text| text.parse().map(Timestamp::from_unix).map_err(damaged)).transpose()
    }

    fn mark(&self, mark: Mark, at: Timestamp, detail: &str) -> Result<(), LedgerError> {
        // Since when: the first time counts.
        self.db.execute("INSERT OR IGNORE INTO marks VALUES (?1, ?2, ?3)", params![mark.word(), at.unix(), detail])?;
        Ok(())
    }
}
