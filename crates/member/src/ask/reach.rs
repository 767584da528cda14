//! Reaching a gateway: each in turn, by the one way that `wire::connect` knows.

use identity::verifier::Untrusted;
use wire::connect::{Anchor, Believed, CallError, GatewayAddress, Provisional};
use wire::known::Known;
use wire::tls::{Expect, OwnSvid};

use crate::ask::error::AskError;

/// Believes the first gateway that can be believed. The failure that says most is told if none can.
pub async fn believe_one_of(
    gateways: &[GatewayAddress],
    expect: &Expect,
    own: Option<&OwnSvid>,
    anchor: Anchor<'_>,
) -> Result<(Believed, Known), AskError> {
    try_each(gateways, expect, own, anchor, &mut false).await
}

/// `moved` says whether one of them may only have another root than is known here.
pub(crate) async fn try_each(
    gateways: &[GatewayAddress],
    expect: &Expect,
    own: Option<&OwnSvid>,
    anchor: Anchor<'_>,
    moved: &mut bool,
) -> Result<(Believed, Known), AskError> {
    let mut told = None;
    for gateway in gateways {
        let attempt = async { Provisional::dial(gateway, expect, own).await?.believe(anchor).await };
        match attempt.await {
            Ok(believed) => return Ok(believed),
            Err(why) => {
                tracing::debug!(gateway = %gateway.address, %why, "not this one");
                *moved |= is_lost(&why);
                told = Some(CallError::or_rather(told, why));
            }
        }
    }
    Err(told.map_or(AskError::NoGateway, AskError::Call))
}

/// May a gateway be refused only because this node does not know its roots, or knows old ones?
pub const fn is_lost(why: &CallError) -> bool {
    why.is_unknown_root()
        || matches!(why, CallError::ClocksApart { why: Untrusted::Expired { .. } | Untrusted::NotYetValid { .. }, .. })
}
