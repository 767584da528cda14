//! A recovery begins: the recovery keys want a new signer set, and everybody is told.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::signers::Word;
use identity::time::Timestamp;
use org::refusal::Refusal;
use org::state::State;

use crate::answer::gateway::Gateway;

/// As many as a machine keeps in sight. Every caller is told of each: without a bound, whoever has the recovery keys
/// could make answers so long that nobody could read them, and so keep the signers from objecting.
const MAX_OPEN: usize = 4;

/// When the recovery takes effect here. Its authority is in its signatures, so anybody may bring it.
pub async fn begin(gateway: &Gateway, recovery: Envelope) -> Result<Timestamp, Refusal> {
    if let Some(due_at) = known(&*gateway.state().await, &recovery)? {
        return Ok(due_at);
    }
    let now = clock::now();
    let correlation = random::correlation().map_err(|why| Refusal::Failed { why: why.to_string() })?;
    let due_at = gateway
        .writer
        .run(move |desk| {
            // Another connection may have been quicker.
            if let Some(due_at) = known(desk.state, &recovery)? {
                return Ok(due_at);
            }
            if desk.state.open_recoveries().count() >= MAX_OPEN {
                let why = format!("{MAX_OPEN} recoveries wait already: finish one of them");
                return Err(Refusal::LedgerRefuses { why });
            }
            desk.append_recovery(recovery, now, correlation)?;
            Ok(now + desk.state.recovery_delay)
        })
        .await?;
    tracing::error!(
        %due_at,
        "RECOVERY: the recovery keys want to replace the signers. If the signers are not lost, stop it: freehold recover --cancel"
    );
    Ok(due_at)
}

fn known(state: &State, recovery: &Envelope) -> Result<Option<Timestamp>, Refusal> {
    let next = state.signer_set().succeed(recovery, &state.recovery);
    let (set, word) = next.map_err(|why| Refusal::LedgerRefuses { why: why.to_string() })?;
    if word != Word::Recovery {
        return Err(Refusal::BadProof);
    }
    if let Some(name) = state.name_taken(&set) {
        let why = format!("the signer's name `{name}` belongs to another key: choose another");
        return Err(Refusal::LedgerRefuses { why });
    }
    let begun = state.open_recoveries().find(|(record, _)| record.set.id == set.id);
    Ok(begun.map(|(_, due_at)| due_at))
}
