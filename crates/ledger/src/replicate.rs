//! A replica takes over entries that another has: all of a page, or as many as fit.

use identity::envelope::{BadEnvelope, Envelope};
use identity::id::Digest;
use org::derived;
use org::entry::{Action, SignedEntry};
use org::state::{State, Unfit};

use crate::error::LedgerError;
use crate::store::Ledger;

/// Why a page is not taken. What came before it is.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("an entry that was handed over cannot be read")]
    Unreadable(#[from] BadEnvelope),
    #[error("an entry that was handed over is no part of this ledger: {0}")]
    Unfit(#[from] Unfit),
}

/// Only gateways write these, and they change a few rows; everything else is an operator's, and wide.
pub const fn is_narrow(action: &Action) -> bool {
    matches!(action, Action::NodeAdmit { .. } | Action::NodeJoin { .. } | Action::NodeLeave { .. })
}

/// Takes a page in one commit: none of it if one entry does not fit. `state` is what the ledger says before and after.
pub fn take(ledger: &Ledger, state: &mut State, page: Vec<Envelope>) -> Result<(), NotTaken> {
    let mut next = state.clone();
    ledger.begin()?;
    match write(ledger, &mut next, page).and_then(|()| Ok(ledger.commit()?)) {
        Ok(()) => {
            *state = next;
            Ok(())
        }
        Err(why) => {
            ledger.roll_back();
            Err(why)
        }
    }
}

fn write(ledger: &Ledger, state: &mut State, page: Vec<Envelope>) -> Result<(), NotTaken> {
    let mut before: Option<State> = None;
    for envelope in page {
        let signed = SignedEntry::open(state.org, envelope)?;
        if state.frontier.covers(&signed.cut()) {
            continue;
        }
        if before.is_none() && !is_narrow(&signed.entry.action) {
            before = Some(state.clone());
        }
        // One that is void stands without effect.
        let _ = state.apply(&signed)?;
        ledger.add_entry(&signed)?;
        if before.is_none() {
            // One that cannot be read is void, and only takes its place.
            let nobody = || derived::rows_about(state, &signed, Digest([0; 32]));
            ledger.put_rows(&derived::rows_after(state, &signed).unwrap_or_else(nobody))?;
        }
    }
    // What is wide is compared as a whole, from the first such entry on.
    match before {
        Some(before) => Ok(ledger.change_rows(&derived::changes(Some(&before), state))?),
        None => Ok(()),
    }
}
