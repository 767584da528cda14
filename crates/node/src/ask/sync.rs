//! Checking in, and leaving.

use ground::clock;
use identity::envelope::Envelope;
use identity::key::Sign as _;
use identity::time::Seconds;
use org::admission::Leave;
use org::frontier::Tip;
use wire::connect::{Believed, Gateway};
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest};

use crate::ask::call::{AskError, call_known, keep_in_sight, notice};
use crate::ask::renew;
use crate::store::scope::Scope;

/// Opens an mTLS connection with the node's SVID.
pub async fn connect(scope: &Scope, gateways: &[Gateway]) -> Result<(Believed, Known), AskError> {
    let node = scope.node()?.ok_or(AskError::NotJoined)?;
    let seat = scope.seat(&node.principal());
    let svid = match seat.svid()? {
        Some(svid) if svid.is_good(clock::now()) => svid,
        // Expired, lost, or made by a clock that was ahead: the node key brings it back.
        Some(_) | None => {
            renew::come_back(scope, &node, gateways).await?;
            seat.svid()?.ok_or(AskError::NotJoined)?
        }
    };
    call_known(scope, gateways, Some(&svid.own)).await
}

/// A little is normal; more makes SVIDs seem to end too early or to begin too late.
const CLOCKS: Seconds = Seconds::MINUTE.times(5);

/// The gateway's signed word about its ledger has its time in it.
fn clocks_apart(tip: &Envelope, known: &Known) -> Option<String> {
    let mut voices = known.head.head.mandates.iter().map(|mandate| mandate.voice);
    let there = voices.find_map(|voice| tip.open_signed_by::<Tip>(Some(known.org()), &[voice]).ok())?.at;
    let here = clock::now();
    let way = if here > there { "ahead of" } else { "behind" };
    let apart = here.apart(there);
    let told = || format!("this machine's clock ({here}) is {} {way} the gateway's ({there}): set it", apart.roughly());
    (apart > CLOCKS).then(told)
}

/// One check-in: says what the node has, takes what is new. The ratchet is on disk before it is believed. If the
/// clocks are apart, it says so.
pub async fn check_in(
    scope: &Scope,
    gateway: &mut Believed,
    known: &Known,
) -> Result<(Known, Option<String>), AskError> {
    let question = CheckIn { signers: known.signers.version, head: known.head.head.version, tip: scope.tip()? };
    let answer: CheckedIn = gateway.ask(Ask::CheckIn, &question).await?;
    let newer = known.advance(&answer.signers, answer.head.as_ref(), clock::now());
    let newer = match newer {
        Ok(newer) => newer,
        Err(why) => {
            // A recovery may have taken effect at the gateway before this machine heard of it.
            keep_in_sight(scope, known.heed(&why, clock::now()))?;
            return Err(AskError::BadAnswer(why.to_string()));
        }
    };
    if newer.head.digest != known.head.digest || newer.signers.id != known.signers.id {
        scope.save_known(&newer)?;
    }
    let mut newer = newer;
    for recovery in &answer.recoveries {
        newer = notice(scope, &newer, recovery)?.unwrap_or(newer);
    }
    scope.save_tip(&answer.tip, &newer)?;
    let apart = clocks_apart(&answer.tip, &newer);
    Ok((newer, apart))
}

pub async fn check_in_once(scope: &Scope, gateways: &[Gateway]) -> Result<Known, AskError> {
    let (mut gateway, known) = connect(scope, gateways).await?;
    Ok(check_in(scope, &mut gateway, &known).await?.0)
}

/// Tells the gateway that this machine leaves.
pub async fn leave(scope: &Scope, gateways: &[Gateway]) -> Result<(), AskError> {
    let (mut gateway, known) = connect(scope, gateways).await?;
    let node_key = scope.node_key()?;
    let bad = |why: &dyn std::fmt::Display| AskError::BadAnswer(why.to_string());
    let body = Leave { node_key: node_key.public(), at: clock::now() };
    let leave = Envelope::seal(Some(known.org()), &body).map_err(|why| bad(&why))?;
    let leave = leave.signed(&node_key).map_err(|why| bad(&why))?;
    let Done {} = gateway.ask(Ask::Leave, &LeaveRequest { leave }).await?;
    Ok(())
}
