//! A call as a node that knows its org: what was learned is kept before it is used.

use ground::clock;
use identity::key::Sign as _;
use wire::connect::{Anchor, Believed, CallError, GatewayAddress};
use wire::known::Known;
use wire::tls::OwnSvid;

use crate::ask::error::AskError;
use crate::ask::keep::{self, identity_roots, keep_in_sight, save_authority};
use crate::ask::reach::try_each;
use crate::ask::trust;
use crate::store::scope::Scope;

/// Did the operators revoke this machine's key? The signed head, which any stranger may read, says so.
pub(crate) async fn is_revoked(scope: &Scope, gateways: &[GatewayAddress]) -> Result<bool, AskError> {
    let (_, known) = call_known(scope, gateways, None).await?;
    Ok(known.head.head.revocations.node_keys.contains(&scope.node_key()?.public().digest()))
}

/// As a node that knows its org; what was learned is kept before it is used.
pub async fn call_known(
    scope: &Scope,
    gateways: &[GatewayAddress],
    own: Option<&OwnSvid>,
) -> Result<(Believed, Known), AskError> {
    let mut known = scope.known()?.ok_or(AskError::NotJoined)?;
    let tip = scope.tip()?;
    let expect = keep::expect(scope, &known)?;
    let mut moved = false;
    let mut believed =
        Box::pin(try_each(gateways, &expect, own, Anchor::Known(&known, tip.as_ref()), &mut moved)).await;
    if believed.is_err()
        && moved
        && let Some(newer) = Box::pin(trust::come_home(scope, gateways, &known)).await?
    {
        known = newer;
        let expect = keep::expect(scope, &known)?;
        believed = Box::pin(try_each(gateways, &expect, own, Anchor::Known(&known, tip.as_ref()), &mut moved)).await;
    }
    if let Err(AskError::Call(CallError::Knowledge { source, .. })) = &believed {
        keep_in_sight(scope, known.heed(source, known.now(clock::now())))?;
    }
    if let Err(AskError::Call(refused @ CallError::NotAccepted { .. })) = believed {
        return Err(explain(scope, gateways, &known, own, refused).await.into());
    }
    let (mut believed, newer) = believed?;
    if newer.says_more_than(&known) {
        save_authority(scope, &newer)?;
    }
    Box::pin(trust::fill(scope, &mut believed, &newer)).await;
    Ok((believed, newer))
}

/// The gateway tells no more than an alert: this side adds what it knows of its own certificate.
async fn explain(
    scope: &Scope,
    gateways: &[GatewayAddress],
    known: &Known,
    own: Option<&OwnSvid>,
    refused: CallError,
) -> CallError {
    let at = |gateway: &&GatewayAddress| matches!(&refused, CallError::NotAccepted { address, .. } if gateway.address == *address);
    let (Some(own), Some(gateway)) = (own, gateways.iter().find(at)) else {
        return refused;
    };
    match identity_roots(scope, known) {
        Ok(roots) => Box::pin(wire::trust::explain(refused, gateway, known, &own.chain, &roots)).await,
        Err(_) => refused,
    }
}
