//! Files that a release or an invite names, and that another gateway has: fetched by their hash.

use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::id::Digest;
use member::ask::error::AskError;
use wire::connect::Believed;
use wire::exchange::{ExchangeAnswer, ExchangeRequest};
use wire::permit::Ask;

use crate::gateway::Gateway;
use crate::replicate::mesh::{ExchangeError, OtherGateway, Untaken, connect};

/// Looked at no oftener than this, and after this long without a word of news.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// Runs until it is dropped: whatever is named and not here is asked for, on a connection of its own.
pub(crate) async fn keep(gateway: Arc<Gateway>, peer: OtherGateway) {
    let mut news = gateway.peers.listen();
    loop {
        news.borrow_and_update();
        if let Err(why) = fetch_all(&gateway, &peer).await {
            tracing::debug!(gateway = %peer.name, why = describe(&why), "files could not be fetched yet");
        }
        tokio::time::sleep(SOONEST).await;
        let _ = tokio::time::timeout(LATEST, news.changed()).await;
    }
}

async fn fetch_all(gateway: &Arc<Gateway>, peer: &OtherGateway) -> Result<(), ExchangeError> {
    let named = gateway.state().await.named_files(clock::now());
    let store = Arc::clone(&gateway.shelves.store);
    let lacking: Vec<Digest> = named.into_iter().filter(|digest| !store.has(*digest)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut line = connect(gateway, peer).await?;
    for digest in lacking {
        fetch(gateway, &mut line, digest).await?;
    }
    Ok(())
}

/// Goes on where an earlier try ended. The store puts a file in place only if it is the one that was asked for.
async fn fetch(gateway: &Arc<Gateway>, line: &mut Believed, digest: Digest) -> Result<(), ExchangeError> {
    let Some(mut from) = gateway.shelves.store.missing(digest) else { return Ok(()) };
    loop {
        let asked = ExchangeRequest::File { digest, from };
        let answer = line.ask(Ask::Exchange, &asked).await.map_err(AskError::Call)?;
        let ExchangeAnswer::File { size, bytes } = answer else { return Err(Untaken::OtherAnswer.into()) };
        // The other does not have it either.
        let Some(size) = size else { return Ok(()) };
        let store = Arc::clone(&gateway.shelves.store);
        let add = move || store.add_part(digest, size, from, &bytes.0);
        let have = tokio::task::spawn_blocking(add).await.map_err(Untaken::from)?.map_err(Untaken::from)?;
        if have >= size {
            return Ok(());
        }
        if have <= from {
            return Err(Untaken::DoesNotGrow.into());
        }
        from = have;
    }
}
