//! Files that a release or an invite names, and that another gateway has: fetched by their hash.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::text::Bytes;
use org::refusal::Refusal;
use wire::connect::{Believed, Gateway as Door};
use wire::exchange::{BYTES_PER_PAGE, ExchangeAnswer, ExchangeRequest};
use wire::permit::Ask;

use crate::answer::gateway::Gateway;
use crate::answer::mesh::{ExchangeError, connect};
use crate::ask::call::AskError;
use crate::store::scope::Scope;

/// Looked at no oftener than this, and after this long without a word of news.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// Runs until it is dropped: whatever is named and not here is asked for, on a connection of its own.
pub async fn keep(gateway: Arc<Gateway>, scope: Scope, peer: NodeName, doors: Vec<Door>) {
    let mut news = gateway.peers.listen();
    loop {
        news.borrow_and_update();
        if let Err(why) = fetch_all(&gateway, (&scope, &peer, &doors)).await {
            tracing::debug!(gateway = %peer, why = describe(&why), "files could not be fetched yet");
        }
        tokio::time::sleep(SOONEST).await;
        let _ = tokio::time::timeout(LATEST, news.changed()).await;
    }
}

async fn fetch_all(
    gateway: &Arc<Gateway>,
    (scope, peer, doors): (&Scope, &NodeName, &[Door]),
) -> Result<(), ExchangeError> {
    let named = gateway.state().await.named_files(clock::now());
    let store = Arc::clone(&gateway.shelves.store);
    let lacking: Vec<Digest> = named.into_iter().filter(|digest| !store.has(*digest)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut line = connect(gateway, (scope, peer, doors)).await?;
    for digest in lacking {
        fetch(gateway, &mut line, digest).await?;
    }
    Ok(())
}

/// Goes on where an earlier try ended. The store puts a file in place only if it is the one that was asked for.
async fn fetch(gateway: &Arc<Gateway>, line: &mut Believed, digest: Digest) -> Result<(), ExchangeError> {
    let not_taken = |why: &dyn std::fmt::Display| ExchangeError::NotTaken(why.to_string());
    let Some(mut from) = gateway.shelves.store.missing(digest) else { return Ok(()) };
    loop {
        let asked = ExchangeRequest::File { digest, from };
        let answer = line.ask(Ask::Exchange, &asked).await.map_err(AskError::Call)?;
        let ExchangeAnswer::File { size, bytes } = answer else { return Err(not_taken(&"another answer")) };
        // The other does not have it either.
        let Some(size) = size else { return Ok(()) };
        let store = Arc::clone(&gateway.shelves.store);
        let add = move || store.add_part((digest, size), (from, &bytes.0));
        let have = tokio::task::spawn_blocking(add).await.map_err(|why| not_taken(&why))?;
        let have = have.map_err(|why| not_taken(&why))?;
        if have >= size {
            return Ok(());
        }
        if have <= from {
            return Err(not_taken(&"a file does not grow"));
        }
        from = have;
    }
}

/// A part of a file, for another gateway; no size if it is not here.
pub async fn part(gateway: &Gateway, digest: Digest, from: u64) -> Result<ExchangeAnswer, Refusal> {
    let store = Arc::clone(&gateway.shelves.store);
    let read = move || -> std::io::Result<ExchangeAnswer> {
        let Some((mut file, size)) = store.open(digest)? else {
            return Ok(ExchangeAnswer::File { size: None, bytes: Bytes(Vec::new()) });
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(u64::try_from(BYTES_PER_PAGE).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(ExchangeAnswer::File { size: Some(size), bytes: Bytes(bytes) })
    };
    let failed = |why: &dyn std::fmt::Display| Refusal::Failed { why: why.to_string() };
    tokio::task::spawn_blocking(read).await.map_err(|why| failed(&why))?.map_err(|why| failed(&why))
}
