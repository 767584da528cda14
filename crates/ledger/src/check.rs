//! Whether a ledger holds, before anything is served from it: SQLite's structure, every entry, what was derived.
//!
//! A byte that flipped on the disk is not noticed by SQLite. Entries are signed, so the ledger itself can tell; what
//! was derived from them can be made again.

use org::derived;
use org::entry::SignedEntry;
use org::founding::Founding;
use org::renew::Issuance;
use org::state::State;

use crate::error::LedgerError;
use crate::store::Ledger;

impl Ledger {
    /// Folds every entry afresh. What was derived is made anew if it says something else; the first row that did is
    /// told. An entry that does not hold is an error, for nothing can make it again.
    pub fn check(&self, founding: &Founding) -> Result<Option<String>, LedgerError> {
        self.check_structure()?;
        let state = self.fold(founding)?;
        for (key, text) in self.issuance_rows()? {
            let bad = |why| LedgerError::Damaged(format!("the issuance of `{key}`: {why}"));
            serde_json::from_str::<Issuance>(&text).map_err(bad)?;
        }
        let (expected, found) = (derived::rows(&state), self.derived()?);
        let differs = expected.iter().find(|(at, value)| found.get(at) != Some(value)).map(|(at, _)| at);
        let Some((table, key)) = differs.or_else(|| found.keys().find(|at| !expected.contains_key(at))) else {
            return Ok(None);
        };
        self.begin()?;
        self.replace_rows(&expected).and_then(|()| self.commit()).inspect_err(|_| self.roll_back())?;
        Ok(Some(format!("table `{table}`, row `{key}`")))
    }

    fn fold(&self, founding: &Founding) -> Result<State, LedgerError> {
        let mut state = State::of(founding);
        let mut after = 0;
        loop {
            let page = self.stored_entries(after)?;
            let Some(last) = page.last() else {
                return Ok(state);
            };
            after = last.id;
            for stored in page {
                let damaged = |why: String| LedgerError::Damaged(format!("entry {}: {why}", stored.id));
                let envelope = serde_json::from_str(&stored.envelope).map_err(|why| damaged(why.to_string()))?;
                let signed = SignedEntry::open(founding.id, envelope).map_err(|why| damaged(why.to_string()))?;
                let entry = &signed.entry;
                let seq = i64::try_from(entry.seq).unwrap_or(i64::MAX);
                let place = (entry.author.to_string(), entry.epoch, seq, signed.digest.to_string());
                if place != stored.place {
                    return Err(damaged("it is filed under another place than its own".to_owned()));
                }
                // Void entries stand in the ledger without effect, wherever it is folded.
                let _ = state.apply(&signed).map_err(|unfit| damaged(unfit.to_string()))?;
            }
        }
    }
}
