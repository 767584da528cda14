//! Whether a ledger holds, before anything is served from it: SQLite's structure, and every entry with its signatures.
//!
//! A byte that flipped on the disk is not noticed by SQLite. Entries are signed, so the ledger itself can tell.

use org::enroll::renew::Issuance;
use org::ledger::entry::SignedEntry;

use crate::damage::{Damage, Part};
use crate::error::LedgerError;
use crate::store::Ledger;
use crate::waiting::inbox;

impl Ledger {
    /// Reads all of it afresh. An entry that does not hold is an error, for nothing can make it again.
    pub fn check(&self) -> Result<(), LedgerError> {
        self.check_structure()?;
        self.check_entries()?;
        self.objects()?;
        // What is damaged there holds nothing up, but that it can be read.
        drop(inbox::left_after(self, 0, u32::MAX)?);
        for (key, text) in self.issuance_rows()? {
            serde_json::from_str::<Issuance>(&text).map_err(|why| Part::Issuance(key).is(why))?;
        }
        Ok(())
    }

    fn check_entries(&self) -> Result<(), LedgerError> {
        let mut after = 0;
        loop {
            let page = self.stored_entries(after)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            for stored in page {
                let part = Part::Entry(stored.id);
                let envelope = serde_json::from_str(&stored.envelope).map_err(|why| part.clone().is(why))?;
                let signed = SignedEntry::open(self.org, envelope).map_err(|why| part.clone().is(why))?;
                let seq = i64::try_from(signed.entry.seq).unwrap_or(i64::MAX);
                if (signed.entry.voice.to_string(), seq, signed.digest.to_string()) != stored.place {
                    return Err(part.is(Damage::Misfiled).into());
                }
            }
        }
    }
}
