//! A replica takes over entries that another has.

use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::Head;
use identity::key::PublicKey;
use identity::signers::{Recovery, Succession};
use identity::time::Timestamp;
use org::ledger::entry::SignedEntry;
use org::ledger::replica::carried;
use org::ledger::signers::Stance;
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
    ledger.keep_time(state, now);
    let is_new = |signed: &SignedEntry| !state.has_entry(&signed.entry.voice, signed.digest);
    let mut open: Vec<SignedEntry> = entries.into_iter().filter(is_new).collect();
    let mut added = 0;
    loop {
        // Whoever has no head yet knows no gateway: the first chain brings it.
        let all = state.head().is_none();
        let voices = &state.judged.voices;
        let (known, strange): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|signed| all || voices.contains_key(&signed.entry.voice));
        if known.is_empty() {
            if heed(ledger, state, &strange, now)? {
                open = strange;
                continue;
            }
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

/// A gateway that began another chain wrote down there which head lets it: what these entries carry of heads and signers is
/// taken if it makes one of their voices known.
fn heed(ledger: &Ledger, state: &mut State, strange: &[SignedEntry], now: Timestamp) -> Result<bool, LedgerError> {
    let leads = |it: &&Envelope| [Head::KIND, Succession::KIND, Recovery::KIND].contains(&it.kind());
    let carried = |signed: &'_ SignedEntry| carried(&signed.entry.action).filter(leads).cloned().collect::<Vec<_>>();
    let carried = strange.iter().flat_map(|signed| carried(signed).into_iter().map(|it| (signed.entry.voice, it)));
    let new: Vec<(PublicKey, Envelope)> = carried.filter(|(_, it)| !state.has_object(it)).collect();
    if new.is_empty() {
        return Ok(false);
    }
    let mut trial = state.clone();
    for (_, envelope) in &new {
        // What cannot be read is nothing.
        let _unread = trial.take(envelope, now);
    }
    ledger.conclude(&mut trial, now)?;
    if !strange.iter().any(|signed| trial.judged.voices.contains_key(&signed.entry.voice)) {
        return Ok(false);
    }
    for (by, envelope) in &new {
        let digest = envelope.digest();
        if trial.head_named(digest).is_some() || !matches!(trial.judged.signers.stance_of(digest), Stance::NotTaken) {
            let _unread = state.take(envelope, now);
            // What its entry brings need not be kept twice.
            if !trial.judged.voices.contains_key(by) {
                ledger.add_object(envelope)?;
            }
        }
    }
    ledger.conclude(state, now)?;
    Ok(true)
}
