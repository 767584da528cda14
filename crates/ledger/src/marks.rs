//! What holds a gateway back, on disk: it was shown its own future, or it was restored from a backup.

use identity::envelope::Envelope;
use identity::time::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::error::LedgerError;
use crate::store::Ledger;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It was shown an entry of its own that it does not have.
    Behind,
    /// It was restored from a backup, and no new epoch has begun since.
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
pub struct Origin {
    /// The backup's file, as it was named.
    pub backup: String,
    pub made_at: Timestamp,
    pub restored_at: Timestamp,
}

impl Ledger {
    pub fn mark_behind(&self, at: Timestamp) -> Result<(), LedgerError> {
        self.mark(Mark::Behind, at, "")
    }

    pub fn mark_restored(&self, origin: &Origin) -> Result<(), LedgerError> {
        let detail = serde_json::to_string(origin).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        self.mark(Mark::Restored, origin.restored_at, &detail)
    }

    /// Where this ledger was restored from, while no new epoch has begun.
    pub fn restored(&self) -> Result<Option<Origin>, LedgerError> {
        let mut query = self.db.prepare("SELECT detail FROM marks WHERE name = ?1")?;
        let details = query.query_map([Mark::Restored.word()], |row| row.get::<_, String>(0))?;
        let origin = details.map(|detail| {
            serde_json::from_str(&detail?).map_err(|why| LedgerError::Damaged(format!("the mark `restored`: {why}")))
        });
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

    /// A head that somebody showed, and that says more than this ledger.
    pub fn shown(&self) -> Result<Option<Envelope>, LedgerError> {
        let mut query = self.db.prepare("SELECT value FROM meta WHERE key = 'shown'")?;
        let text: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
        let damaged = |why: serde_json::Error| LedgerError::Damaged(format!("the head that was shown: {why}"));
        text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
    }

    pub fn keep_shown(&self, head: &Envelope) -> Result<(), LedgerError> {
        let text = serde_json::to_string(head).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        self.db.execute("INSERT OR REPLACE INTO meta VALUES ('shown', ?1)", [text])?;
        Ok(())
    }

    pub fn forget_shown(&self) -> Result<(), LedgerError> {
        self.db.execute("DELETE FROM meta WHERE key = 'shown'", [])?;
        Ok(())
    }

    fn mark(&self, mark: Mark, at: Timestamp, detail: &str) -> Result<(), LedgerError> {
        // Since when: the first time counts.
        self.db.execute("INSERT OR IGNORE INTO marks VALUES (?1, ?2, ?3)", params![mark.word(), at.unix(), detail])?;
        Ok(())
    }
}
