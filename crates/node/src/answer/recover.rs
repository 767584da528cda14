//! A recovery begins: the recovery keys want a new signer set, and everybody is told.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::signers::Word;
use identity::time::Timestamp;
use org::recover::MAX_OPEN;
use org::refusal::Refusal;
use org::state::State;

use crate::answer::desk::Desk;
use crate::answer::gateway::Gateway;
use crate::answer::merge::shout;

/// When the recovery takes effect here. Its authority is in its signatures, so anybody may bring it.
pub async fn begin(gateway: &Gateway, recovery: Envelope) -> Result<Timestamp, Refusal> {
    check(&*gateway.state().await, &recovery)?;
    let now = clock::now();
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let begin = move |desk: &mut Desk<'_>| {
        // Another connection may have been quicker.
        let id = check(desk.state, &recovery)?;
        let is_new = !desk.state.open_recoveries().any(|record| record.set.id == id);
        if is_new {
            if desk.state.open_recoveries().count() >= MAX_OPEN {
                let why = format!("{MAX_OPEN} recoveries wait already: finish one of them");
                return Err(Refusal::LedgerRefuses { why });
            }
            desk.append_recovery(recovery, now, correlation)?;
        }
        Ok((desk.due_at(id, now)?, is_new))
    };
    let (due_at, is_new) = gateway.writer.run(begin).await?;
    if is_new {
        shout(due_at);
    }
    Ok(due_at)
}

/// The set that it names, if it follows the one in force here.
fn check(state: &State, recovery: &Envelope) -> Result<Digest, Refusal> {
    let next = state.signer_set().succeed(recovery, &state.recovery);
    let (set, word) = next.map_err(|why| Refusal::LedgerRefuses { why: why.to_string() })?;
    if word != Word::Recovery {
        return Err(Refusal::BadProof);
    }
    if let Some(name) = state.name_taken(&set) {
        let why = format!("the signer's name `{name}` belongs to another key: choose another");
        return Err(Refusal::LedgerRefuses { why });
    }
    Ok(set.id)
}
