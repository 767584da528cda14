//! Files that operators hand in, part by part, and that the gateway gives up when nothing names them.

use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::certificate;
use identity::envelope::{Envelope, Payload as _};
use identity::id::{Digest, OrgId};
use identity::text::Bytes;
use identity::time::Seconds;
use org::invite::Invite;
use org::refusal::{Fault, Refusal};
use org::release::Release;
use wire::control::{ControlAnswer, DIGESTS_PER_CALL, MissingFile};

use crate::fault::{OrFault as _, failed};
use crate::gateway::Gateway;
use crate::store::files::{Files, FilesError};

/// What nothing names stays so long after it was last handed in or asked about: operators may still be signing.
pub(crate) const UNUSED_FOR: Seconds = Seconds::DAY.times(7);
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// Away from the threads that answer: it reads and writes files.
async fn on_disk<T: Send + 'static>(
    gateway: &Gateway,
    act: impl FnOnce(&Files) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let store = Arc::clone(&gateway.shelves.store);
    let done = tokio::task::spawn_blocking(move || act(&store)).await;
    done.or_fault(Fault::Program)?
}

fn refusal(why: &FilesError) -> Refusal {
    match why {
        FilesError::Size | FilesError::BeyondEnd | FilesError::OtherBytes => {
            Refusal::Malformed { why: why.to_string() }
        }
        FilesError::File(_) | FilesError::Io { .. } => failed(Fault::Disk, why),
        FilesError::Full => failed(Fault::StoreFull, why),
    }
}

pub(crate) async fn missing(gateway: &Gateway, digests: Vec<Digest>) -> Result<ControlAnswer, Refusal> {
    if digests.len() > DIGESTS_PER_CALL {
        return Err(Refusal::Malformed { why: "too many digests in one call".to_owned() });
    }
    on_disk(gateway, move |files| {
        let missing = |digest| files.missing(digest).map(|have| MissingFile { digest, have });
        Ok(ControlAnswer::FilesMissing { missing: digests.into_iter().filter_map(missing).collect() })
    })
    .await
}

pub(crate) async fn add_part(
    gateway: &Gateway,
    digest: Digest,
    size: u64,
    from: u64,
    bytes: Bytes,
) -> Result<ControlAnswer, Refusal> {
    on_disk(gateway, move |files| {
        let have = files.add_part(digest, size, from, &bytes.0).map_err(|why| refusal(&why))?;
        Ok(ControlAnswer::FilePart { have })
    })
    .await
}

pub(crate) async fn sweep(gateway: &Gateway, unused_for: Seconds) -> Result<ControlAnswer, Refusal> {
    let mut named = gateway.state().await.named_files(clock::now());
    named.extend(root_files(gateway).iter().map(|pem| Digest::of(pem.as_bytes())));
    on_disk(gateway, move |files| {
        let swept = files.sweep(&named, unused_for);
        Ok(ControlAnswer::FilesSwept { files: swept.files, bytes: swept.bytes })
    })
    .await
}

/// A release or an invite is taken only if every file that it names is here: whoever follows it finds what it says.
pub(crate) async fn check_named(gateway: &Gateway, org: OrgId, objects: &[Envelope]) -> Result<(), Refusal> {
    let named: Vec<Digest> = objects.iter().flat_map(|object| named_by(org, object)).collect();
    if named.is_empty() {
        return Ok(());
    }
    on_disk(gateway, move |files| match named.into_iter().find(|digest| !files.has(*digest)) {
        Some(digest) => Err(Refusal::NotFound { what: format!("file {digest}") }),
        None => Ok(()),
    })
    .await
}

fn named_by(org: OrgId, object: &Envelope) -> Vec<Digest> {
    match object.kind() {
        Release::KIND => object.peek::<Release>(Some(org)).map(|it| it.files().collect()).unwrap_or_default(),
        Invite::KIND => object.peek::<Invite>(Some(org)).map(|it| it.files.into_iter().collect()).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Every trusted endpoint root, alone and together with the others.
fn root_files(gateway: &Gateway) -> Vec<String> {
    let issuers = gateway.keys.issuers.load();
    let each = issuers.endpoint_roots.iter().map(|root| certificate::to_pem(std::slice::from_ref(root)));
    let mut files: Vec<String> = each.collect();
    if files.len() > 1 {
        files.push(certificate::to_pem(&issuers.endpoint_roots));
    }
    files
}

/// The endpoint roots are there from the start: a joiner knows them by their hash, and believes nothing before it has
/// them.
pub(crate) fn put_roots(gateway: &Gateway) -> Result<(), FilesError> {
    root_files(gateway).iter().try_for_each(|pem| gateway.shelves.store.put(pem.as_bytes()).map(drop))
}

/// Gives up what nothing names, now and every hour.
pub(crate) async fn keep_swept(gateway: Arc<Gateway>) {
    loop {
        match sweep(&gateway, UNUSED_FOR).await {
            Ok(ControlAnswer::FilesSwept { files: 1.., bytes }) => {
                tracing::info!(bytes, "removed files that neither a release nor an invite names");
            }
            Ok(_) => {}
            Err(why) => tracing::warn!(%why, "could not look through the files"),
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}
