//! Somebody knows more than this gateway does, and can prove it.

use ground::clock;
use identity::envelope::Envelope;
use org::refusal::Refusal;
use wire::sync::{Done, ShowRequest};

use crate::gateway::Gateway;
use crate::write::transaction::Transaction;

/// A later word of this gateway's own stops it. A head that says more than the ledger is taken.
pub(crate) async fn show(gateway: &Gateway, request: ShowRequest) -> Result<Done, Refusal> {
    heed(gateway, request.head).await?;
    gateway.confront(request.tip.as_ref()).await?;
    Ok(Done {})
}

/// A head that says more than the ledger: it counts from now on, and nothing is issued until the map that it names is here.
pub(crate) async fn heed(gateway: &Gateway, head: Envelope) -> Result<(), Refusal> {
    let says_more = {
        let state = gateway.state().await;
        let opened = state.open_shown(&head).ok_or(Refusal::BadProof)?;
        // Once is enough: whoever shows it again costs nobody anything.
        state.lacks(&opened) && gateway.is_news(opened.digest)
    };
    if says_more {
        let digest = head.digest();
        let take = move |tx: &mut Transaction<'_>| {
            let opened = tx.state.open_shown(&head).ok_or(Refusal::BadProof)?;
            tx.take_shown(&head, clock::now())?;
            Ok(opened.head.version)
        };
        let version = gateway.writer.run(take).await.inspect_err(|_| gateway.forget_news(digest))?;
        if gateway.has_peers() {
            tracing::info!(version, "somebody holds a head that says more: another gateway has it");
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
