//! Joining: from an invite code to a member, whatever is lost on the way.

use std::time::{Duration, Instant};

use ground::{clock, random};
use identity::bundle::{Bundle, Roots};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::{P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use identity::time::Seconds;
use org::invite::admission::{Claim, Purpose, Transcript};
use org::invite::code::{InviteCode, Ticket};
use org::invite::words::Words;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, Gateway};
use wire::enroll::{Challenge, EnrollRequest, Issued};
use wire::known::Known;
use wire::permit::Ask;
use wire::tls::Expect;
use wire::trust::Trust;

use crate::ask::error::{AskError, with_clocks};
use crate::ask::facts::facts;
use crate::ask::reach::believe_one_of;
use crate::ask::svid::{Asking, check_offer};
use crate::ask::{sync, trust};
use crate::store::scope::word::LastGood;
use crate::store::scope::{NodeFile, Scope, Wish};
use crate::store::waiting::Waiting;

/// Tries this often while gateways cannot be reached or break off.
const ATTEMPTS: u32 = 6;
/// Whoever waits for a person tries for ever, but no oftener than this while no gateway answers.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Asked again no sooner than this, whatever a gateway answers.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// Within a stranger's connection, with time to spare for what comes before.
const ROUND: Seconds = Seconds(40);

/// What the machine shows beside its own key: the code, and its old node key if it was reinstalled; that is kept until it
/// is a member, so that it need not be shown twice.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    pub code: &'a InviteCode,
    pub old_key: Option<&'a P256Key>,
}

/// How a join gets on.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    Doing(&'a str),
    /// A person must approve this machine. Told once.
    Waits(&'a Waiting),
}

/// Joins and comes back as a member. Safe to run again at any point: the same node key gets the same answer. Waits for a
/// person, if one must approve it, as long as `patience`; without one, as long as the invite lives.
pub async fn join(
    scope: &Scope,
    shown: Shown<'_>,
    wish: &Wish,
    patience: Option<Duration>,
    mut tell: impl FnMut(Step<'_>),
) -> Result<NodeFile, AskError> {
    let code = shown.code;
    let fresh = !scope.path("node.key").exists();
    let wish = &settled(scope, wish)?;
    let begun = Instant::now();
    let left = || patience.map_or(Duration::from_secs(ROUND.0), |patience| patience.saturating_sub(begun.elapsed()));
    let (mut pause, mut attempt) = (Duration::from_millis(300), 1);
    // What the last answer was: nothing so far, or that it waits. After a lost one, neither is known.
    let (mut unheard, mut waits, mut told) = (true, scope.waiting()?.is_some(), false);
    let node = loop {
        let round = Instant::now();
        let wait = waits.then(|| ROUND.min(Seconds(left().as_secs())));
        match try_join(scope, shown, wish, wait, &mut tell).await {
            Ok(node) => break node,
            Err(AskError::Waits { claim }) => {
                let waiting = keep_waiting(scope, code, wish, claim)?;
                if !std::mem::replace(&mut told, true) {
                    tell(Step::Waits(&waiting));
                }
                if wait.is_some() && left().is_zero() {
                    return Err(AskError::Waits { claim });
                }
                if wait.is_some_and(|wait| wait.0 > 0) {
                    tokio::time::sleep(SHORTEST_ROUND.saturating_sub(round.elapsed())).await;
                }
                (pause, attempt) = (Duration::from_millis(300), 1);
                (unheard, waits) = (false, true);
            }
            Err(AskError::Call(why))
                if why.is_worth_retrying() && (attempt < ATTEMPTS || waits && !left().is_zero()) =>
            {
                tell(Step::Doing(&format!("{why}; trying again")));
                tokio::time::sleep(pause).await;
                (attempt, pause) = (attempt.saturating_add(1), (pause * 2).min(LONGEST_PAUSE));
                unheard = false;
            }
            Err(why) => return Err(give_up(scope, why, (fresh, unheard, waits))),
        }
    };
    tell(Step::Doing("admitted; coming back as a member"));
    come_back(scope, node).await
}

/// What a machine that waits remembers of it. Its own claim has the words, whatever the gateway says.
fn keep_waiting(scope: &Scope, code: &InviteCode, wish: &Wish, claim: Digest) -> Result<Waiting, AskError> {
    if let Some((known, _)) = scope.waiting()?.filter(|(known, _)| known.claim == claim) {
        return Ok(known);
    }
    let waiting = Waiting {
        org: code.name.clone(),
        org_id: code.org,
        name: wish.name.clone(),
        claim,
        words: Words::of(claim),
        since: clock::now(),
        gateways: code.gateways.clone(),
    };
    scope.save_waiting(&waiting, code)?;
    Ok(waiting)
}

/// Leaves nothing behind that is of no use any more.
fn give_up(scope: &Scope, why: AskError, (fresh, unheard, waits): (bool, bool, bool)) -> AskError {
    let refusal = why.refusal();
    // Nothing was asked with the keys of this folder, or the first answer was a clear no: it is of no use.
    let unused = !scope.path("wish.json").exists();
    let refused = unheard && refusal.is_some_and(is_a_no);
    // It was never let in, and as what it is it never will be.
    let over = match refusal {
        Some(Refusal::Denied) => true,
        Some(Refusal::NameTaken { .. }) => waits,
        _ => false,
    };
    if over || fresh && (unused || refused) {
        let _ = scope.wipe();
    }
    match why {
        AskError::Call(CallError::Refused(refusal)) | AskError::OtherTime { refusal, .. }
            if waits && ends(&refusal) =>
        {
            // The next code is another one; the node key may stay.
            let _ = scope.forget_waiting();
            AskError::WaitedInVain(refusal)
        }
        why => why,
    }
}

/// The invite is over, and with it the wait.
const fn ends(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::InviteExpired { .. } | Refusal::InviteRevoked | Refusal::InviteUsedUp { .. })
}

/// A clear no, in which nothing was spent. The others leave open what happened.
const fn is_a_no(refusal: &Refusal) -> bool {
    !matches!(
        refusal,
        Refusal::Busy { .. } | Refusal::Failed { .. } | Refusal::Waiting | Refusal::AwaitingApproval { .. }
    )
}

/// A join that was interrupted goes on as what it began as.
fn settled(scope: &Scope, wish: &Wish) -> Result<Wish, AskError> {
    match scope.wish()? {
        // Where the roots are written is nobody else's affair, and may be said anew.
        Some(begun) if (Wish { trust: wish.trust.clone(), ..begun.clone() }) != *wish => {
            Err(AskError::OtherWish { begun: begun.name })
        }
        Some(_) | None => Ok(wish.clone()),
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
            // Another gateway may not have heard yet of whom the first one let in.
            Err(AskError::Call(why))
                if attempt < ATTEMPTS
                    && (why.is_worth_retrying() || matches!(why, CallError::Refused(Refusal::NotAdmitted))) =>
            {
                tokio::time::sleep(wait).await;
                (attempt, wait) = (attempt + 1, wait * 2);
            }
            Err(why) => return Err(why),
        }
    }
    node.joined = true;
    scope.save_node(&node)?;
    scope.forget_waiting()?;
    Ok(node)
}

/// Asks each gateway of the code in turn, until one lets this machine in or says no for all of them.
async fn try_join(
    scope: &Scope,
    shown: Shown<'_>,
    wish: &Wish,
    wait: Option<Seconds>,
    tell: &mut impl FnMut(Step<'_>),
) -> Result<NodeFile, AskError> {
    let (mut unsure, mut last) = (None, AskError::NoGateway);
    for address in &shown.code.gateways {
        match try_join_at(scope, (shown, Gateway::from(address.clone())), wish, wait, tell).await {
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
    match why.refusal() {
        Some(refusal) => matches!(
            refusal,
            Refusal::InviteNotHere
                | Refusal::InviteUsedUp { .. }
                | Refusal::InviteUnknown { .. }
                | Refusal::NoMandate
                | Refusal::HeadStale { .. }
                | Refusal::LedgerBehind
                | Refusal::Restored
        ),
        // Nothing was spent on an offer by a wrong clock.
        None => matches!(why, AskError::Call(_) | AskError::Untimely { .. }),
    }
}

async fn try_join_at(
    scope: &Scope,
    (shown, gateway): (Shown<'_>, Gateway),
    wish: &Wish,
    wait: Option<Seconds>,
    tell: &mut impl FnMut(Step<'_>),
) -> Result<NodeFile, AskError> {
    let code = shown.code;
    let anchor = Anchor::Code { org: code.org, signers: code.signers_floor, head: code.head_floor };
    let (mut gateway, known) = believe_one_of(&[gateway], &Expect::Pin(code.endpoint_root), None, anchor).await?;
    let version = known.head.head.version;
    tell(Step::Doing(&format!("believed the gateway at {}: mandated in head {version}", gateway.address())));
    let Trust { identity, endpoint } = gateway.trust(&known).await?;

    if known.founding.record.name != code.name {
        return Err(AskError::BadAnswer("the org is called otherwise than the code says".to_owned()));
    }
    let known = not_behind(scope, known)?;
    if matches!(code.ticket, Ticket::Machine { .. }) {
        scope.take_requested()?;
    }
    scope.make_keys()?;
    if let Some(key) = shown.old_key {
        scope.keep_old_key(key)?;
    }
    let old_key = wish.replaces.is_some().then(|| scope.old_key()).transpose()?;
    let shown = Shown { code, old_key: old_key.as_ref() };
    scope.save_wish(wish)?;
    let node_key = scope.node_key()?;
    let claim = Claim {
        authority: code.ticket.authority(),
        node_key: node_key.public(),
        seal_key: scope.seal_key()?,
        name: wish.name.clone(),
        labels: wish.labels.clone(),
        roles: wish.roles.clone(),
        host: wish.host.clone(),
        replaces: wish.replaces,
        until: None,
    };
    let principal = Principal::node(&known.founding.record.name, &wish.name);
    let asking = Asking { known: &known, principal: &principal, node: &wish.name, node_key: &node_key };
    let pending = scope.seat(&principal).pending()?;
    tell(Step::Doing(&format!("proving the invite as `{}`", wish.name)));
    let proven = prove(&mut gateway, (shown, &claim), asking, &pending, wait).await;
    let issued = proven.map_err(|why| with_clocks(why, &gateway, &known))?;

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
    trust::begin(scope, &known, Trust { identity, endpoint }, wish.trust.clone().unwrap_or_default())?;
    scope.save_admission(&issued.admission)?;
    scope.save_tip(&issued.tip, &known)?;
    scope.seat(&principal).install(&pending, &chain)?;
    let node = NodeFile {
        schema: 1,
        org: known.founding.record.name.clone(),
        org_id: known.org(),
        name: wish.name.clone(),
        invite: code.ticket.invite(),
        gateways: code.gateways.clone(),
        joined: false,
        trust: wish.trust.clone(),
    };
    if known.head.head.mandates.len() > 1 {
        // It knows this machine; the others hear of it a moment later.
        let first = known.head.head.first_gateway().cloned();
        scope.save_last_good(&LastGood { schema: 1, address: gateway.address().clone(), first })?;
    }
    scope.save_node(&node)?;
    let _ = std::fs::remove_file(scope.path("wish.json"));
    scope.forget_old_key()?;
    if matches!(code.ticket, Ticket::Machine { .. }) {
        scope.forget_requested()?;
    }
    Ok(node)
}

/// What this folder already knew of the org, from a join that was interrupted, is not unlearned.
fn not_behind(scope: &Scope, known: Known) -> Result<Known, AskError> {
    if let Some(before) = scope.known()?.filter(|before| before.org() == known.org()) {
        let advanced = before.advance(&known.chain, Some(&known.head_envelope), before.now(clock::now()));
        return advanced.map_err(|why| AskError::BadAnswer(why.to_string()));
    }
    Ok(known)
}

/// The claim and the transcript, each signed by the invite's key and the node key. Whoever is known to wait for a person
/// also tells of itself, and lets the gateway wait.
async fn prove(
    gateway: &mut Believed,
    (shown, claim): (Shown<'_>, &Claim),
    asking: Asking<'_>,
    pending: &crate::store::scope::Pending,
    wait: Option<Seconds>,
) -> Result<Issued, AskError> {
    let bad = |why: &dyn std::fmt::Display| AskError::BadAnswer(why.to_string());
    let (invite_key, node_key): (_, &P256Key) = (shown.code.ticket.key(shown.code.org), asking.node_key);
    let challenge: Challenge = gateway.ask(Ask::Challenge, &()).await?;
    check_offer(gateway, &challenge, asking.known)?;
    let challenge_bytes: [u8; 32] =
        challenge.challenge.0.as_slice().try_into().map_err(|_| bad(&"the challenge is not 32 bytes"))?;
    let svid = asking.request(pending, challenge.not_after)?;
    let mut envelope = Envelope::seal(Some(asking.known.org()), claim).map_err(|why| bad(&why))?;
    if let Some(key) = &invite_key {
        envelope.sign(key).map_err(|why| bad(&why))?;
    }
    envelope.sign(node_key).map_err(|why| bad(&why))?;
    if let Some(key) = shown.old_key {
        envelope.sign(key).map_err(|why| bad(&why))?;
    }
    let nonce: [u8; 32] = random::bytes()?;
    let transcript = Transcript::new(
        (challenge_bytes, nonce),
        envelope.digest(),
        &svid.request.0,
        &svid.binding,
        gateway.exporter(),
    );
    let by_invite = invite_key.as_ref().map(|key| transcript.sign(Purpose::Enroll, key));
    let facts = wait.map(|_| Envelope::seal(Some(asking.known.org()), &facts(envelope.digest())));
    let facts = facts.transpose().map_err(|why| bad(&why))?.map(|facts| facts.signed(node_key));
    let digest = envelope.digest();
    let wait = wait.unwrap_or(Seconds(0));
    let request = EnrollRequest {
        facts: facts.transpose().map_err(|why| bad(&why))?,
        wait,
        claim: envelope,
        nonce: Bytes(nonce.to_vec()),
        by_invite: by_invite.transpose().map_err(|why| bad(&why))?,
        by_node: transcript.sign(Purpose::Enroll, node_key).map_err(|why| bad(&why))?,
        svid,
    };
    match gateway.ask_patiently(Ask::Enroll, &request, wait).await {
        Err(CallError::Refused(Refusal::AwaitingApproval { .. })) => Err(AskError::Waits { claim: digest }),
        answer => Ok(answer?),
    }
}

/// What a machine knows about itself, if it is asked for no other name.
pub fn own_name(hostname: &str) -> Option<NodeName> {
    NodeName::of_host(hostname).ok()
}
