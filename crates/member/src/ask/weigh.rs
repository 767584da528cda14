//! Asking what would change here, and changing nothing but the ratchet.

use ground::clock;
use identity::time::Seconds;
use wire::connect::GatewayAddress;
use wire::known::Known;

use crate::apply::engine::{ApplyError, Offered, Urge};
use crate::apply::preview::{Ground, Preview};
use crate::ask::error::{AskError, BadAnswer};
use crate::ask::source::Source;
use crate::ask::sync::{self, Listed, Wants};
use crate::ask::tree;
use crate::store::scope::{NodeFile, Scope};
use crate::store::suspensions;

#[derive(Debug, thiserror::Error)]
pub enum WeighError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// For a scope of which nobody else has hold. Authority is never on trial: what is new of it is taken and stays.
pub async fn weigh(scope: &Scope, from: Option<&Source>, urged: Option<Urge>) -> Result<Preview, WeighError> {
    let node = scope.node().map_err(AskError::from)?.ok_or(AskError::NotJoined)?;
    let ground = Ground::on_disk(&scope.folder)?;
    let (known, listed) = match from {
        Some(source) => {
            let told = tree::read(scope, &node, source).await?;
            (told.known, told.listed)
        }
        None => ask(scope, &node, &ground).await?,
    };
    let head = known.head.head.version;
    match listed? {
        Listed::Nothing => Ok(ground.nothing(head)),
        Listed::Manifest { digest, bytes } => {
            let bytes = bytes.or_else(|| ground.bytes_of(digest)).unwrap_or_default();
            Ok(ground.preview(Offered { digest, bytes: &bytes, head, urged }, clock::now())?)
        }
    }
}

async fn ask(
    scope: &Scope,
    node: &NodeFile,
    ground: &Ground<'_>,
) -> Result<(Known, Result<Listed, AskError>), AskError> {
    let mut gateways = ground.gateways();
    gateways.extend(node.gateways.iter().filter(|address| !ground.gateways().contains(address)).cloned());
    let gateways: Vec<GatewayAddress> = gateways.into_iter().map(GatewayAddress::from).collect();
    let (mut gateway, known) = sync::connect(scope, &gateways).await?;
    let wants = Wants {
        listed: 0,
        have: ground.have(),
        waits_for: None,
        rivals: known.mark(),
        suspended: suspensions::mark(scope),
        wait: Seconds(0),
        report: None,
    };
    let heard = sync::sync(scope, &mut gateway, &known, &node.name, wants).await?;
    let unsaid = || Err(BadAnswer::Unlisted.into());
    Ok((heard.known, heard.listed.unwrap_or_else(unsaid)))
}
