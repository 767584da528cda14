//! Somebody knows more than this gateway does, and can prove it.

use identity::envelope::Envelope;
use org::refusal::Refusal;
use wire::sync::{Done, ShowRequest};

use crate::answer::desk::Desk;
use crate::answer::gateway::Gateway;

/// A later word of this gateway's own stops it. A head that says more than the ledger is kept for the operators.
pub async fn show(gateway: &Gateway, request: ShowRequest) -> Result<Done, Refusal> {
    heed(gateway, request.head).await?;
    gateway.confront(request.tip.as_ref()).await?;
    Ok(Done {})
}

/// A head that says more than the ledger: nothing is issued until the ledger has caught up with it.
pub async fn heed(gateway: &Gateway, head: Envelope) -> Result<(), Refusal> {
    let says_more = {
        let state = gateway.state().await;
        let opened = state.open_shown(&head).ok_or(Refusal::BadProof)?;
        // Once is enough: whoever shows it again costs nobody anything.
        state.lacks(&opened.head) && gateway.is_news(opened.head.version)
    };
    if says_more {
        let keep = move |desk: &mut Desk<'_>| {
            let opened = desk.state.open_shown(&head).ok_or(Refusal::BadProof)?;
            let kept = desk.keep(|desk| desk.ledger.shown())?;
            let kept = kept.and_then(|kept| desk.state.open_shown(&kept)).map_or(0, |kept| kept.head.version);
            if opened.head.version > kept {
                desk.keep(|desk| desk.ledger.keep_shown(&head))?;
                desk.measure(&head);
            }
            Ok(opened.head.version)
        };
        let version = gateway.writer.run(keep).await.inspect_err(|_| gateway.forget_news())?;
        if gateway.has_peers() {
            tracing::info!(version, "somebody holds a later head: another gateway has it");
            gateway.peers.hurry();
        } else {
            tracing::error!(
                version,
                "somebody holds a head that says more than this ledger: it was restored from an old copy, or entries were lost"
            );
        }
    }
    Ok(())
}
