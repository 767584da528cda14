//! Somebody knows more than this gateway does, and can prove it.

use identity::envelope::Envelope;
use identity::head::{Head, SignedHead};
use org::refusal::Refusal;
use org::state::State;
use wire::sync::{Done, ShowRequest};

use crate::answer::desk::Desk;
use crate::answer::gateway::Gateway;

/// A later word of this gateway's own stops it. A head that says more than the ledger is kept for the operators.
pub async fn show(gateway: &Gateway, request: ShowRequest) -> Result<Done, Refusal> {
    let says_more = {
        let state = gateway.state().await;
        let opened = open(&state, &request.head).ok_or(Refusal::BadProof)?;
        // Once is enough: whoever shows it again costs nobody anything.
        says_more(&state, &opened.head) && gateway.is_news(opened.head.version)
    };
    if says_more {
        let head = request.head;
        let keep = move |desk: &mut Desk<'_>| {
            let opened = open(desk.state, &head).ok_or(Refusal::BadProof)?;
            let kept = desk.keep(|desk| desk.ledger.shown())?;
            let kept = kept.and_then(|kept| open(desk.state, &kept)).map_or(0, |kept| kept.head.version);
            if opened.head.version > kept {
                desk.keep(|desk| desk.ledger.keep_shown(&head))?;
                desk.measure(&head);
            }
            Ok(opened.head.version)
        };
        let version = gateway.writer.run(keep).await.inspect_err(|_| gateway.forget_news())?;
        tracing::error!(
            version,
            "somebody holds a head that says more than this ledger: it was restored from an old copy, or entries were lost"
        );
    }
    gateway.confront(request.tip.as_ref()).await?;
    Ok(Done {})
}

/// Only the signers in force can have said more than this ledger: whatever earlier ones said before they went is in it,
/// and what they sign now is worth nothing.
fn open(state: &State, head: &Envelope) -> Option<SignedHead> {
    SignedHead::open(state.signer_set(), head).ok()
}

/// A later version, or a revocation that the ledger lost.
fn says_more(state: &State, head: &Head) -> bool {
    let own = state.head().map_or(0, |own| own.head.version);
    head.version > own || !state.revocations.includes(&head.revocations)
}

/// Is it a later head than the ledger's?
pub fn is_later(state: &State, shown: &Envelope) -> bool {
    let own = state.head().map_or(0, |own| own.head.version);
    open(state, shown).is_some_and(|shown| shown.head.version > own)
}

/// Once a head says all that was shown, what was shown is history.
pub fn is_answered(state: &State, shown: &Envelope) -> bool {
    open(state, shown).is_none_or(|shown| !says_more(state, &shown.head))
}
