//! The next SVID: over mTLS while the last one is good, by admission and node key after it expired.

use std::collections::BTreeSet;

use ground::{clock, random};
use identity::causes::describe;
use identity::principal::Principal;
use identity::principal::host::HostName;
use identity::text::Bytes;
use identity::time::Seconds;
use identity::verifier::{self, Side, Standard};
use org::invite::admission::{Purpose, Transcript};
use org::refusal::Refusal;
use wire::connect::{Believed, GatewayAddress};
use wire::enroll::{Challenge, Issued, RenewRequest, ReturnRequest};
use wire::known::Known;
use wire::permit::Ask;

use crate::ask::call::call_known;
use crate::ask::error::{AskError, BadAnswer, with_clocks};
use crate::ask::keep::identity_roots;
use crate::ask::svid::{Asking, check_offer};
use crate::store::scope::{NodeFile, Scope, ScopeError};

/// What is wanted of the next SVID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub principal: &'a Principal,
    pub dns: &'a BTreeSet<HostName>,
    /// If operators want it to live shorter than the gateway offers.
    pub life: Option<Seconds>,
}

/// Renews one principal's SVID over an open mTLS connection.
pub(crate) async fn renew(
    scope: &Scope,
    node: &NodeFile,
    wanted: Wanted<'_>,
    gateway: &mut Believed,
    known: &Known,
) -> Result<(), AskError> {
    let node_key = scope.node_key()?;
    let Wanted { principal, dns, life } = wanted;
    let asking = Asking { known, principal, node: &node.name, node_key: &node_key, dns };
    let seat = scope.seat(principal);
    let pending = seat.pending()?;
    let challenge: Challenge =
        gateway.ask(Ask::Challenge, &()).await.map_err(|why| with_clocks(why.into(), gateway, known))?;
    check_offer(gateway, &challenge, known)?;
    let until = life.map_or(challenge.not_after, |life| challenge.not_after.min(known.now(clock::now()) + life));
    let svid = asking.request(&pending, until)?;
    let request = RenewRequest { principal: principal.clone(), svid };
    let issued: Issued =
        gateway.ask(Ask::Renew, &request).await.map_err(|why| with_clocks(why.into(), gateway, known))?;
    let chain = asking.check(&issued, &pending, &identity_roots(scope, known)?)?;
    scope.save_tip(&issued.tip, known)?;
    seat.install(&pending, &chain)?;
    heal_admission(scope, &asking, &issued);
    Ok(())
}

pub(crate) fn lacks_proof(scope: &Scope) -> bool {
    !matches!(scope.admission(), Ok(Some(_)) | Err(ScopeError::Older { .. }))
}

/// One that is damaged, or gone: without it nobody comes back once the SVID is over.
fn heal_admission(scope: &Scope, asking: &Asking<'_>, issued: &Issued) {
    if !lacks_proof(scope) {
        return;
    }
    let healed = asking.check_own_admission(issued).and_then(|_| Ok(scope.save_admission(&issued.admission)?));
    if let Err(why) = healed {
        tracing::error!(
            why = describe(&why),
            "the proof that this machine joined is damaged, and could not be written anew"
        );
    }
}

/// Comes back after the SVID expired. Whoever cannot issue, or issues what is not believed, is not the last to be asked.
pub(crate) async fn come_back(scope: &Scope, node: &NodeFile, gateways: &[GatewayAddress]) -> Result<(), AskError> {
    let (mut left, mut told) = (gateways.to_vec(), None);
    loop {
        let (gateway, known) = match call_known(scope, &left, None).await {
            Ok(called) => called,
            Err(why) => return Err(told.unwrap_or(why)),
        };
        let asked = gateway.address().clone();
        match come_back_at(scope, node, gateway, known).await {
            Err(why) if is_only_there(&why) => {
                tracing::debug!(gateway = %asked, why = describe(&why), "no certificate from there");
                left.retain(|gateway| gateway.address != asked);
                let why = told.get_or_insert(why);
                if left.is_empty() {
                    return Err(std::mem::replace(why, AskError::NoGateway));
                }
            }
            done => return done,
        }
    }
}

/// Another gateway may be in office, or know more.
const fn is_only_there(why: &AskError) -> bool {
    match why.refusal() {
        Some(refusal) => matches!(refusal, Refusal::NoMandate | Refusal::LedgerBehind | Refusal::Restored),
        None => matches!(why, AskError::BadAnswer(_) | AskError::Untimely { .. }),
    }
}

/// A full proof, by admission and node key.
async fn come_back_at(scope: &Scope, node: &NodeFile, mut gateway: Believed, known: Known) -> Result<(), AskError> {
    let node_key = scope.node_key()?;
    let principal = node.principal();
    let asking =
        Asking { known: &known, principal: &principal, node: &node.name, node_key: &node_key, dns: &BTreeSet::new() };
    let admission = scope.admission()?.ok_or(AskError::NotJoined)?;
    let seat = scope.seat(&principal);
    let pending = seat.pending()?;
    let challenge: Challenge =
        gateway.ask(Ask::Challenge, &()).await.map_err(|why| with_clocks(why.into(), &gateway, &known))?;
    check_offer(&gateway, &challenge, &known)?;
    let challenge_bytes: [u8; 32] = challenge.challenge.0.as_slice().try_into().map_err(|_| BadAnswer::Challenge)?;
    let svid = asking.request(&pending, challenge.not_after)?;
    let nonce: [u8; 32] = random::bytes()?;
    let transcript =
        Transcript::new(challenge_bytes, nonce, admission.digest(), &svid.request.0, &svid.binding, gateway.exporter());
    let by_node = transcript.sign(Purpose::Return, &node_key).map_err(BadAnswer::Key)?;
    let tip = scope.tip_of(&gateway.mandate.gateway)?;
    let request = ReturnRequest { admission: admission.digest(), nonce: Bytes(nonce.to_vec()), svid, by_node, tip };
    let issued: Issued =
        gateway.ask(Ask::Return, &request).await.map_err(|why| with_clocks(why.into(), &gateway, &known))?;
    let chain = asking.check(&issued, &pending, &identity_roots(scope, &known)?)?;
    scope.save_tip(&issued.tip, &known)?;
    Ok(seat.install(&pending, &chain)?)
}

/// Is the SVID in use no longer one by what the operators say now, although its time is not over? The signed head, which
/// any stranger may read, says so.
pub(crate) async fn is_outdated(scope: &Scope, node: &NodeFile, gateways: &[GatewayAddress]) -> Result<bool, AskError> {
    let Some(svid) = scope.seat(&node.principal()).svid()? else {
        return Ok(false);
    };
    let (_, known) = call_known(scope, gateways, None).await?;
    let roots = identity_roots(scope, &known)?;
    let head = &known.head.head;
    let standard = Standard { org: known.org(), name: &known.founding.record.name, roots: &roots, head };
    Ok(verifier::check_svid(&svid.own.chain, Side::Client, standard, known.now(clock::now())).is_err())
}
