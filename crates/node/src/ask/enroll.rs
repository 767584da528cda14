//! Joining: from an invite code to a member, whatever is lost on the way.

use std::time::Duration;

use ground::{clock, random};
use identity::bundle::{Bundle, Roots};
use identity::envelope::Envelope;
use identity::key::{P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use org::admission::{Claim, ClaimAuthority, Purpose, Transcript};
use org::code::InviteCode;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, Gateway};
use wire::enroll::{Challenge, EnrollRequest, Issued};
use wire::known::Known;
use wire::permit::Ask;
use wire::tls::Expect;

use crate::ask::call::{AskError, believe_one_of};
use crate::ask::svid::{Asking, check_offer};
use crate::ask::sync;
use crate::store::scope::{NodeFile, Scope, Wish};

/// Tries this often while gateways cannot be reached or break off.
const ATTEMPTS: u32 = 6;

/// Joins and comes back as a member. Safe to run again at any point: the same node key gets the same answer.
pub async fn join(
    scope: &Scope,
    code: &InviteCode,
    wish: &Wish,
    mut tell: impl FnMut(&str),
) -> Result<NodeFile, AskError> {
    let fresh = !scope.path("node.key").exists();
    let wish = &settled(scope, wish)?;
    let mut wait = Duration::from_millis(300);
    let mut attempt = 1;
    let node = loop {
        match try_join(scope, code, wish, &mut tell).await {
            Ok(node) => break node,
            Err(AskError::Call(why)) if why.is_worth_retrying() && attempt < ATTEMPTS => {
                tell(&format!("{why}; trying again"));
                tokio::time::sleep(wait).await;
                (attempt, wait) = (attempt + 1, wait * 2);
            }
            Err(why) => {
                // Nothing was asked with the keys of this folder, or the first answer was a clear no: it is of no use.
                let unused = !scope.path("wish.json").exists();
                let refused =
                    attempt == 1 && matches!(&why, AskError::Call(CallError::Refused(refusal)) if is_a_no(refusal));
                if fresh && (unused || refused) {
                    let _ = scope.wipe();
                }
                return Err(why);
            }
        }
    };
    tell("admitted; coming back as a member");
    come_back(scope, node).await
}

/// A clear no, in which nothing was spent. The others leave open what happened.
const fn is_a_no(refusal: &Refusal) -> bool {
    !matches!(refusal, Refusal::Busy { .. } | Refusal::Failed { .. } | Refusal::Waiting)
}

/// A join that was interrupted goes on as what it began as.
fn settled(scope: &Scope, wish: &Wish) -> Result<Wish, AskError> {
    match scope.wish()? {
        Some(begun) if begun != *wish => Err(AskError::OtherWish { begun: begun.name }),
        Some(begun) => Ok(begun),
        None => Ok(wish.clone()),
    }
}

/// The return over mTLS that makes a node a member; also finishes a join that was interrupted.
pub async fn come_back(scope: &Scope, mut node: NodeFile) -> Result<NodeFile, AskError> {
    let gateways: Vec<Gateway> = scope.addresses(&node, clock::now())?.into_iter().map(Gateway::from).collect();
    let mut wait = Duration::from_millis(300);
    let mut attempt = 1;
    loop {
        match sync::check_in_once(scope, &gateways).await {
            Ok(_) => break,
            Err(AskError::Call(why)) if why.is_worth_retrying() && attempt < ATTEMPTS => {
                tokio::time::sleep(wait).await;
                (attempt, wait) = (attempt + 1, wait * 2);
            }
            Err(why) => return Err(why),
        }
    }
    node.joined = true;
    scope.save_node(&node)?;
    Ok(node)
}

/// Asks each gateway of the code in turn, until one lets this machine in or says no for all of them.
async fn try_join(
    scope: &Scope,
    code: &InviteCode,
    wish: &Wish,
    tell: &mut impl FnMut(&str),
) -> Result<NodeFile, AskError> {
    let (mut unsure, mut last) = (None, AskError::NoGateway);
    for address in &code.gateways {
        match try_join_at(scope, (code, Gateway::from(address.clone())), wish, tell).await {
            Ok(node) => return Ok(node),
            Err(AskError::Call(why)) if why.is_worth_retrying() => unsure = Some(why),
            Err(why) if is_only_here(&why) => last = why,
            Err(why) => return Err(why),
        }
    }
    // Whoever could not be asked may be the one that has the right.
    Err(unsure.map_or(last, AskError::Call))
}

/// Another gateway may have the right, or know more.
const fn is_only_here(why: &AskError) -> bool {
    let AskError::Call(call) = why else { return false };
    match call {
        CallError::Refused(refusal) => matches!(
            refusal,
            Refusal::InviteNotHere
                | Refusal::InviteUsedUp { .. }
                | Refusal::InviteUnknown { .. }
                | Refusal::NoMandate
                | Refusal::HeadStale { .. }
                | Refusal::LedgerBehind
                | Refusal::Restored
        ),
        _ => true,
    }
}

async fn try_join_at(
    scope: &Scope,
    (code, gateway): (&InviteCode, Gateway),
    wish: &Wish,
    tell: &mut impl FnMut(&str),
) -> Result<NodeFile, AskError> {
    let anchor = Anchor::Code { org: code.org, signers: code.signers_floor, head: code.head_floor };
    let (mut gateway, known) = believe_one_of(&[gateway], &Expect::Pin(code.endpoint_root), None, anchor).await?;
    tell(&format!("believed the gateway at {}: mandated in head {}", gateway.address(), known.head.head.version));
    let (identity, endpoint) = gateway.both_bundles(&known).await?;

    if known.founding.record.name != code.name {
        return Err(AskError::BadAnswer("the org is called otherwise than the code says".to_owned()));
    }
    let known = not_behind(scope, known)?;
    scope.make_keys()?;
    scope.save_wish(wish)?;
    let node_key = scope.node_key()?;
    let claim = Claim {
        authority: ClaimAuthority::Invite(code.invite),
        node_key: node_key.public(),
        seal_key: scope.seal_key()?,
        name: wish.name.clone(),
        labels: wish.labels.clone(),
        roles: wish.roles.clone(),
    };
    let principal = Principal::node(&known.founding.record.name, &wish.name);
    let asking = Asking { known: &known, principal: &principal, node: &wish.name, node_key: &node_key };
    let pending = scope.seat(&principal).pending()?;
    tell(&format!("proving the invite as `{}`", wish.name));
    let issued = prove(&mut gateway, code, &claim, asking, &pending).await?;

    let admitted = asking.check_admission(&issued)?;
    if admitted.claim != claim {
        return Err(AskError::BadAnswer("the admission says something else than the claim".to_owned()));
    }
    let roots = Roots::from_certificates(
        identity.iter().map(Bundle::roots).flat_map(|roots| roots.certificates().to_vec()).collect(),
    );
    let chain = asking.check(&issued, &pending, &roots)?;

    // Authority first, then what stands on it; the node file last, as the mark that all is there.
    scope.save_known(&known)?;
    scope.save_trust(&identity, &endpoint)?;
    scope.save_admission(&issued.admission)?;
    scope.save_tip(&issued.tip, &known)?;
    scope.seat(&principal).install(&pending, &chain)?;
    let node = NodeFile {
        schema: 1,
        org: known.founding.record.name.clone(),
        org_id: known.org(),
        name: wish.name.clone(),
        invite: Some(code.invite),
        gateways: code.gateways.clone(),
        joined: false,
    };
    scope.save_node(&node)?;
    let _ = std::fs::remove_file(scope.path("wish.json"));
    Ok(node)
}

/// What this folder already knew of the org, from a join that was interrupted, is not unlearned.
fn not_behind(scope: &Scope, known: Known) -> Result<Known, AskError> {
    if let Some(before) = scope.known()?.filter(|before| before.org() == known.org()) {
        known.head.may_follow(&before.head).map_err(|why| AskError::BadAnswer(why.to_string()))?;
    }
    Ok(known)
}

/// The claim and the transcript, each signed by the invite's key and the node key.
async fn prove(
    gateway: &mut Believed,
    code: &InviteCode,
    claim: &Claim,
    asking: Asking<'_>,
    pending: &crate::store::scope::Pending,
) -> Result<Issued, AskError> {
    let bad = |why: &dyn std::fmt::Display| AskError::BadAnswer(why.to_string());
    let (invite_key, node_key): (_, &P256Key) = (code.secret.key(code.org, code.invite), asking.node_key);
    let challenge: Challenge = gateway.ask(Ask::Challenge, &()).await?;
    check_offer(gateway, &challenge)?;
    let challenge_bytes: [u8; 32] =
        challenge.challenge.0.as_slice().try_into().map_err(|_| bad(&"the challenge is not 32 bytes"))?;
    let svid = asking.request(pending, challenge.not_after)?;
    let mut envelope = Envelope::seal(Some(asking.known.org()), claim).map_err(|why| bad(&why))?;
    envelope.sign(&invite_key).map_err(|why| bad(&why))?;
    envelope.sign(node_key).map_err(|why| bad(&why))?;
    let nonce: [u8; 32] = random::bytes()?;
    let transcript = Transcript::new(
        (challenge_bytes, nonce),
        envelope.digest(),
        &svid.request.0,
        &svid.binding,
        gateway.exporter(),
    );
    let request = EnrollRequest {
        claim: envelope,
        nonce: Bytes(nonce.to_vec()),
        by_invite: transcript.sign(Purpose::Enroll, &invite_key).map_err(|why| bad(&why))?,
        by_node: transcript.sign(Purpose::Enroll, node_key).map_err(|why| bad(&why))?,
        svid,
    };
    Ok(gateway.ask(Ask::Enroll, &request).await?)
}

/// What a machine knows about itself, if it is asked for no other name.
pub fn own_name(hostname: &str) -> Option<NodeName> {
    NodeName::of_host(hostname).ok()
}
