//! Joining: from an invite code to a member, whatever is lost on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use ground::random;
use identity::bundle::{Bundle, Roots};
use identity::envelope::Envelope;
use identity::key::{P256Key, Sign as _};
use identity::principal::{Name, NodeName, Principal};
use identity::text::Bytes;
use org::admission::{Claim, ClaimAuthority, Purpose, Transcript};
use org::code::InviteCode;
use org::invite::Label;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, Gateway};
use wire::enroll::{Challenge, EnrollRequest, Issued};
use wire::known::Known;
use wire::permit::Ask;
use wire::tls::Expect;

use crate::ask::call::{AskError, believe_one_of};
use crate::ask::svid::Asking;
use crate::ask::sync;
use crate::store::scope::{NodeFile, Scope};

/// What the machine wants to be.
#[derive(Debug, Clone)]
pub struct Wish {
    pub name: NodeName,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
}

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
                // A clear no to keys that were made just now: they are of no use to anybody.
                if fresh && matches!(&why, AskError::Call(CallError::Refused(refusal)) if is_final(refusal)) {
                    let _ = scope.wipe();
                }
                return Err(why);
            }
        }
    };
    tell("admitted; coming back as a member");
    come_back(scope, node).await
}

const fn is_final(refusal: &Refusal) -> bool {
    !matches!(
        refusal,
        Refusal::Busy { .. } | Refusal::TooManyAttempts { .. } | Refusal::Failed { .. } | Refusal::Waiting
    )
}

/// The return over mTLS that makes a node a member; also finishes a join that was interrupted.
pub async fn come_back(scope: &Scope, mut node: NodeFile) -> Result<NodeFile, AskError> {
    let gateways: Vec<Gateway> = node.gateways.iter().cloned().map(Gateway::from).collect();
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

async fn try_join(
    scope: &Scope,
    code: &InviteCode,
    wish: &Wish,
    tell: &mut impl FnMut(&str),
) -> Result<NodeFile, AskError> {
    let gateways: Vec<Gateway> = code.gateways.iter().cloned().map(Gateway::from).collect();
    let anchor = Anchor::Code { org: code.org, signers: code.signers_floor, head: code.head_floor };
    let (mut gateway, known) = believe_one_of(&gateways, &Expect::Pin(code.endpoint_root), None, anchor).await?;
    tell(&format!("believed the gateway at {}: mandated in head {}", gateway.address(), known.head.head.version));
    let (identity, endpoint) = gateway.both_bundles(&known).await?;

    scope.make_keys()?;
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
    scope.save_tip(&issued.tip)?;
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
    Ok(node)
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
    let challenge_bytes: [u8; 32] =
        challenge.challenge.0.as_slice().try_into().map_err(|_| bad(&"the challenge is not 32 bytes"))?;
    let svid = asking.request(pending, challenge.not_after, &gateway.mandate)?;
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
    let first = hostname.split('.').next().unwrap_or_default();
    first.to_ascii_lowercase().parse().ok()
}

/// Whether what is known fits the code: for a second run.
pub fn is_same_org(known: &Known, code: &InviteCode) -> bool {
    known.org() == code.org
}
