//! A replica takes over entries that another has.

use identity::envelope::{BadEnvelope, Envelope};
use identity::time::Timestamp;
use org::entry::SignedEntry;
use org::state::State;

use crate::error::LedgerError;
use crate::store::Ledger;

/// Why a page is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("an entry that was handed over cannot be read")]
    Unreadable(#[from] BadEnvelope),
}

/// Takes a page in one commit; how many entries of it were new. `state` is what the ledger says before and after.
pub fn take(ledger: &Ledger, state: &mut State, page: Vec<Envelope>, now: Timestamp) -> Result<usize, NotTaken> {
    let opened = page.into_iter().map(|envelope| SignedEntry::open(state.org, envelope));
    let opened: Vec<SignedEntry> = opened.collect::<Result<_, _>>()?;
    let mut next = state.clone();
    ledger.begin()?;
    let added = add(ledger, &mut next, opened, now).and_then(|added| ledger.commit().map(|()| added));
    match added {
        Ok(added) => {
            *state = next;
            Ok(added)
        }
        Err(why) => {
            ledger.roll_back();
            Err(why.into())
        }
    }
}

/// Adds entries to a ledger whose commit the caller has begun. Those of voices that no head here has given to a gateway are
/// left out: they are handed over again once one has.
pub fn add(
    ledger: &Ledger,
    state: &mut State,
    entries: Vec<SignedEntry>,
    now: Timestamp,
) -> Result<usize, LedgerError> {
    let is_new = |signed: &SignedEntry| !state.has_entry(&signed.entry.voice, signed.digest);
    let mut open: Vec<SignedEntry> = entries.into_iter().filter(is_new).collect();
    let mut added = 0;
    loop {
        // Whoever has no head yet knows no gateway: the first chain brings it.
        let all = state.head().is_none();
        let voices = &state.voices;
        let (known, strange): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|signed| all || voices.contains_key(&signed.entry.voice));
        if known.is_empty() {
            break;
        }
        for signed in &known {
            state.take_entry(signed, now);
            ledger.add_entry(signed)?;
        }
        added += known.len();
        // A head among them may have made other gateways known.
        ledger.conclude(state, now)?;
        open = strange;
    }
    ledger.keep_sights(&state.replica.sights)?;
    Ok(added)
}
