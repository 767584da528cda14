//! Asking what would change here, and changing nothing but the ratchet.

use ground::clock;
use wire::connect::Gateway;

use crate::apply::engine::{ApplyError, Offered, Urge};
use crate::apply::preview::{Ground, Preview};
use crate::ask::call::AskError;
use crate::ask::sync::{self, Listed, Wants};
use crate::store::scope::Scope;
use identity::time::Seconds;

#[derive(Debug, thiserror::Error)]
pub enum WeighError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// For a scope of which nobody else has hold. Authority is never on trial: what is new of it is taken and stays.
pub async fn weigh(scope: &Scope, urged: Option<Urge>) -> Result<Preview, WeighError> {
    let node = scope.node().map_err(AskError::from)?.ok_or(AskError::NotJoined)?;
    let ground = Ground::on_disk(&scope.folder)?;
    let mut gateways = ground.gateways();
    gateways.extend(node.gateways.iter().filter(|address| !ground.gateways().contains(address)).cloned());
    let gateways: Vec<Gateway> = gateways.into_iter().map(Gateway::from).collect();
    let (mut gateway, known) = sync::connect(scope, &gateways).await?;
    let wants = Wants { listed: 0, have: ground.have(), waits_for: None, wait: Seconds(0), report: None };
    let heard = sync::sync(scope, (&mut gateway, &known), &node.name, wants).await?;
    let version = heard.known.head.head.version;
    match heard.listed.transpose()? {
        None => Err(AskError::BadAnswer("it does not say how this node is listed".to_owned()).into()),
        Some(Listed::Nothing) => Ok(ground.nothing(version)),
        Some(Listed::Manifest { digest, bytes }) => {
            let bytes = bytes.or_else(|| ground.bytes_of(digest)).unwrap_or_default();
            Ok(ground.preview(Offered { digest, bytes: &bytes, head: version, urged }, clock::now())?)
        }
    }
}
