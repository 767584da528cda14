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

/// Takes a page in one commit; how many entries of it were new. `state` is what the ledger says before and after. Entries of
/// voices that no head here has given to a gateway are left out: they are handed over again once one has.
pub fn take(ledger: &Ledger, state: &mut State, page: Vec<Envelope>, now: Timestamp) -> Result<usize, NotTaken> {
    let opened = page.into_iter().map(|envelope| SignedEntry::open(state.org, envelope));
    let mut opened: Vec<SignedEntry> = opened.collect::<Result<_, _>>()?;
    let mut next = state.clone();
    ledger.begin()?;
    let mut write = || -> Result<usize, NotTaken> {
        let mut taken = 0;
        loop {
            let (known, strange): (Vec<_>, Vec<_>) =
                opened.drain(..).partition(|signed| next.voices.contains_key(&signed.entry.voice) || taken_from_nobody(&next));
            if known.is_empty() {
                break;
            }
            for signed in known.iter().filter(|signed| !state.has_entry(&signed.entry.voice, signed.digest)) {
                next.take_entry(signed, now);
                ledger.add_entry(signed)?;
                taken += 1;
            }
            // A head among them may have made other gateways known.
            ledger.conclude(&mut next, now)?;
            opened = strange;
        }
        ledger.keep_sights(&next.replica.sights)?;
        ledger.commit()?;
        Ok(taken)
    };
    let written = write();
    match written {
        Ok(taken) => {
            *state = next;
            Ok(taken)
        }
        Err(why) => {
            ledger.roll_back();
            Err(why)
        }
    }
}

/// Whoever has no head yet knows no gateway: the first chain brings it.
fn taken_from_nobody(state: &State) -> bool {
    state.head().is_none()
}
