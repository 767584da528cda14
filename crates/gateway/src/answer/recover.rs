//! A recovery begins: the recovery keys want a new signer set, and everybody is told.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::time::Timestamp;
use org::ledger::entry::Stamp;
use org::ledger::signers::Stance;
use org::refusal::{Fault, Objection, Refusal};
use org::state::State;
use org::state::accept::NotRecovered;
use org::state::signer::MAX_OPEN;

use crate::fault::OrFault as _;
use crate::gateway::Gateway;
use crate::write::transaction::Transaction;
use crate::write::transaction::merge::shout;

/// When the recovery takes effect here. Its authority is in its signatures, so anybody may bring it.
pub(crate) async fn begin(gateway: &Gateway, recovery: Envelope) -> Result<Timestamp, Refusal> {
    let now = clock::now();
    {
        let state = gateway.state().await;
        if is_over(&state, &recovery) {
            return Ok(now);
        }
        check(&state, &recovery, now)?;
    }
    let correlation = random::correlation().or_fault(Fault::Randomness)?;
    let begin = move |tx: &mut Transaction<'_>| {
        // Another connection may have been quicker, or the delay have run out a moment ago.
        if is_over(tx.state, &recovery) {
            return Ok((now, false));
        }
        check(tx.state, &recovery, now)?;
        let digest = recovery.digest();
        let due = |state: &State| state.open_recoveries().iter().find(|(step, _)| step.digest == digest).map(|it| it.1);
        if let Some(due_at) = due(tx.state) {
            return Ok((due_at, false));
        }
        if tx.state.open_recoveries().len() >= MAX_OPEN {
            return Err(Refusal::LedgerRefuses { why: Objection::RecoveriesWait { most: MAX_OPEN } });
        }
        tx.take(vec![recovery], Stamp { at: now, correlation })?;
        let why = Objection::OtherSigners;
        due(tx.state).map(|due_at| (due_at, true)).ok_or(Refusal::LedgerRefuses { why })
    };
    let (due_at, is_new) = gateway.writer.run(begin).await?;
    if is_new {
        shout(due_at);
    }
    Ok(due_at)
}

/// Whoever comes to finish it asks again.
fn is_over(state: &State, recovery: &Envelope) -> bool {
    state.judged.signers.stance_of(recovery.digest()) == Stance::Taken
}

fn check(state: &State, recovery: &Envelope, now: Timestamp) -> Result<(), Refusal> {
    state.check_recovery(recovery, now).map_err(|why| match why {
        NotRecovered::NotSigned(_) => Refusal::BadProof,
        why => Refusal::LedgerRefuses { why: Objection::of(&why) },
    })
}
