//! Joining: from an invite code to a member, whatever is lost on the way.

mod joining;
pub mod bundle;
pub mod rejoin;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ground::{clock, random};
use identity::bundle::{Bundle, Roots};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::{P256Key, PublicKey, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use identity::time::Seconds;
use org::invite::admission::{Claim, Purpose, Transcript};
use org::invite::code::{InviteCode, Ticket};
use org::invite::words::Words;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, GatewayAddress};
use wire::enroll::{Challenge, EnrollRequest, Issued};
use wire::known::Known;
use wire::known::carried::KnownOrg;
use wire::permit::Ask;
use wire::tls::Expect;
use wire::trust::Trust;

use self::joining::{Action, Around, Backoff, Event, Joining, Moment, No, ROUND, meaning};
use crate::ask::error::{AskError, BadAnswer, with_clocks};
use crate::ask::facts::facts;
use crate::ask::reach::believe_one_of;
use crate::ask::svid::{Asking, check_offer};
use crate::ask::{sync, trust};
use crate::store::scope::waiting::Waiting;
use crate::store::scope::word::LastGood;
use crate::store::scope::{NodeFile, Scope, Wish};

/// What the machine shows beside its own key: the code, and its old node key if it was reinstalled; that is kept until it
/// is a member, so that it need not be shown twice.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    pub code: &'a InviteCode,
    pub old_key: Option<&'a P256Key>,
    /// What a bundle brought along: gateways are believed by this, and not by the root that the code pins.
    pub org: Option<&'a KnownOrg>,
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
    let fresh = !scope.path("node.key").exists();
    let wish = &settled(scope, wish)?;
    let begun = Instant::now();
    let left = || patience.map_or(Duration::from_secs(ROUND.0), |patience| patience.saturating_sub(begun.elapsed()));
    let mut joining = Joining::begin(fresh, scope.waiting()?.is_some());
    let node = loop {
        let round = Instant::now();
        let (tried, around) = ask_around(scope, shown, wish, joining.patience(left()), &mut tell).await;
        let waiting = match &tried {
            Err(AskError::Waits { claim }) => Some(keep_waiting(scope, shown.code, wish, *claim)?),
            _ => None,
        };
        let unused = !scope.path("wish.json").exists();
        let moment = Moment { left: left(), round: round.elapsed(), unused, around };
        let action;
        (joining, action) = joining.step(event(&tried), moment);
        if let (Some(waiting), Action::Ask { tell: true, .. } | Action::Leave { tell: true }) = (&waiting, action) {
            tell(Step::Waits(waiting));
        }
        match (action, tried) {
            (_, Ok(node)) => break node,
            (Action::Ask { after, .. }, Err(why)) => {
                if !matches!(why, AskError::Waits { .. }) {
                    tell(Step::Doing(&format!("{why}; trying again")));
                }
                tokio::time::sleep(after).await;
            }
            (Action::GiveUp { wipe, in_vain }, Err(why)) => return Err(give_up(scope, why, wipe, in_vain)),
            (Action::Leave { .. } | Action::ComeBack, Err(why)) => return Err(why),
        }
    };
    tell(Step::Doing("admitted; coming back as a member"));
    come_back(scope, node).await
}

fn event(tried: &Result<NodeFile, AskError>) -> Event {
    match tried {
        Ok(_) => Event::Admitted,
        Err(AskError::Waits { .. }) => Event::Waits,
        Err(AskError::Call(why)) if why.is_worth_retrying() => Event::Lost,
        Err(why) => why.refusal().map_or(Event::Failed, |refusal| Event::Refused(meaning(refusal).no)),
    }
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

fn give_up(scope: &Scope, why: AskError, wipe: bool, in_vain: bool) -> AskError {
    if wipe {
        let _ = scope.wipe();
    }
    match why {
        AskError::Call(CallError::Refused(refusal)) | AskError::OtherTime { refusal, .. } if in_vain => {
            let _ = scope.forget_waiting();
            AskError::WaitedInVain(refusal)
        }
        why => why,
    }
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
pub(crate) async fn come_back(scope: &Scope, mut node: NodeFile) -> Result<NodeFile, AskError> {
    let gateways: Vec<GatewayAddress> =
        scope.addresses(&node, clock::now())?.into_iter().map(GatewayAddress::from).collect();
    let mut backoff = Backoff::new();
    while let Err(why) = sync::check_in_once(scope, &gateways).await {
        // Another gateway may not have heard yet of whom the first one let in.
        let later =
            |call: &CallError| call.is_worth_retrying() || matches!(call, CallError::Refused(Refusal::NotAdmitted));
        let pause = match &why {
            AskError::Call(call) if later(call) => backoff.next(false),
            _ => None,
        };
        tokio::time::sleep(pause.ok_or(why)?).await;
    }
    node.joined = true;
    scope.save_node(&node)?;
    scope.forget_waiting()?;
    Ok(node)
}

/// Asks each gateway of the code in turn, until one lets this machine in or says no for all of them. What one has answered
/// says more than that another could not be asked.
async fn ask_around(
    scope: &Scope,
    shown: Shown<'_>,
    wish: &Wish,
    wait: Option<Seconds>,
    tell: &mut impl FnMut(Step<'_>),
) -> (Result<NodeFile, AskError>, Around) {
    let (mut no, mut silence, mut other) = (None, None, AskError::NoGateway);
    let mut around = Around::default();
    for address in &shown.code.gateways {
        let tried = try_join_at(scope, shown, GatewayAddress::from(address.clone()), wish, wait, tell).await;
        let NotIn { why, unsure } = match tried {
            Ok(node) => return (Ok(node), around),
            Err(not_in) => not_in,
        };
        around.unsure |= unsure;
        match why {
            AskError::Call(why) if why.is_worth_retrying() => silence = Some(why),
            why if !is_only_here(&why) => return (Err(why), around),
            why if why.refusal().is_some() => no = Some(why),
            why => other = why,
        }
    }
    around.silent = silence.is_some();
    (Err(no.or(silence.map(AskError::Call)).unwrap_or(other)), around)
}

/// Why a gateway did not let this machine in.
struct NotIn {
    why: AskError,
    /// It may have, and its answer was lost.
    unsure: bool,
}

impl<E: Into<AskError>> From<E> for NotIn {
    fn from(why: E) -> Self {
        Self { why: why.into(), unsure: false }
    }
}

/// Was it asked, and is it open what it did?
fn may_have_let_in(why: &AskError) -> bool {
    match why.refusal() {
        Some(refusal) => meaning(refusal).no == No::Unclear,
        None => matches!(why, AskError::Call(call) if call.is_worth_retrying()),
    }
}

/// Another gateway may have the right, or know more.
const fn is_only_here(why: &AskError) -> bool {
    match why.refusal() {
        Some(refusal) => meaning(refusal).only_here,
        // Nothing was spent on an offer by a wrong clock.
        None => matches!(why, AskError::Call(_) | AskError::Untimely { .. }),
    }
}

async fn try_join_at(
    scope: &Scope,
    shown: Shown<'_>,
    gateway: GatewayAddress,
    wish: &Wish,
    wait: Option<Seconds>,
    tell: &mut impl FnMut(Step<'_>),
) -> Result<NodeFile, NotIn> {
    let code = shown.code;
    let (mut gateway, known) = believe(shown, gateway).await?;
    let version = known.head.head.version;
    tell(Step::Doing(&format!("believed the gateway at {}: mandated in head {version}", gateway.address())));
    let Trust { identity, endpoint } = wire::trust::trust(&mut gateway, &known).await?;

    if known.founding.record.name != code.name {
        return Err(BadAnswer::OtherName.into());
    }
    let known = not_behind(scope, known)?;
    let old_key = settle_keys(scope, shown, wish)?;
    let shown = Shown { old_key: old_key.as_ref(), ..shown };
    let node_key = scope.node_key()?;
    let claim = claim(scope, code, wish, node_key.public())?;
    let principal = Principal::node(&known.founding.record.name, &wish.name);
    let asking =
        Asking { known: &known, principal: &principal, node: &wish.name, node_key: &node_key, dns: &BTreeSet::new() };
    let pending = scope.seat(&principal).pending()?;
    tell(Step::Doing(&format!("proving the invite as `{}`", wish.name)));
    let proven = prove(&mut gateway, shown, &claim, asking, &pending, wait).await;
    let issued =
        proven.map_err(|why| NotIn { unsure: may_have_let_in(&why), why: with_clocks(why, &gateway, &known) })?;

    let admitted = asking.check_admission(&issued)?;
    if admitted.claim != claim {
        return Err(BadAnswer::OtherClaim.into());
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
    if known.head.head.mandates.len() > 1 {
        // It knows this machine; the others hear of it a moment later.
        let first = known.head.head.first_gateway().cloned();
        scope.save_last_good(&LastGood { schema: 1, address: gateway.address().clone(), first })?;
    }
    Ok(save_node(scope, code, wish, &known)?)
}

/// They are on disk, and what is wished, before anybody hears of them. Gives back the old key, if there is one to show.
fn settle_keys(scope: &Scope, shown: Shown<'_>, wish: &Wish) -> Result<Option<P256Key>, AskError> {
    if matches!(shown.code.ticket, Ticket::Machine { .. }) {
        scope.take_requested()?;
    }
    scope.make_keys()?;
    if let Some(key) = shown.old_key {
        scope.keep_old_key(key)?;
    }
    let old_key = wish.replaces.is_some().then(|| scope.old_key()).transpose()?;
    scope.save_wish(wish)?;
    Ok(old_key)
}

fn claim(scope: &Scope, code: &InviteCode, wish: &Wish, node_key: PublicKey) -> Result<Claim, AskError> {
    Ok(Claim {
        authority: code.ticket.authority(),
        node_key,
        seal_key: scope.seal_key()?,
        name: wish.name.clone(),
        labels: wish.labels.clone(),
        roles: wish.roles.clone(),
        host: wish.host.clone(),
        replaces: wish.replaces,
        until: None,
    })
}

/// From then on nothing is wished any more.
fn save_node(scope: &Scope, code: &InviteCode, wish: &Wish, known: &Known) -> Result<NodeFile, AskError> {
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
    scope.save_node(&node)?;
    let _ = std::fs::remove_file(scope.path("wish.json"));
    scope.forget_old_key()?;
    if matches!(code.ticket, Ticket::Machine { .. }) {
        scope.forget_requested()?;
    }
    Ok(node)
}

/// By what a bundle brought along, or by the code alone.
async fn believe(shown: Shown<'_>, gateway: GatewayAddress) -> Result<(Believed, Known), AskError> {
    let code = shown.code;
    let Some(org) = shown.org else {
        let anchor = Anchor::Code { org: code.org, signers: code.signers_floor, head: code.head_floor };
        return believe_one_of(&[gateway], &Expect::Pin(code.endpoint_root), None, anchor).await;
    };
    let expect = Expect::Roots(org.endpoint.clone());
    let (believed, known) = believe_one_of(&[gateway], &expect, None, Anchor::Known(&org.known, None)).await?;
    let fresh = known.head.head.check_for_joiner(code.signers_floor.version, code.head_floor, clock::now());
    fresh.map_err(|why| BadAnswer::Behind(Box::new(why.into())))?;
    Ok((believed, known))
}

/// What this folder already knew of the org, from a join that was interrupted, is not unlearned.
fn not_behind(scope: &Scope, known: Known) -> Result<Known, AskError> {
    if let Some(before) = scope.known()?.filter(|before| before.org() == known.org()) {
        let advanced = before.advance(&known.chain, Some(&known.head_envelope), before.now(clock::now()));
        return Ok(advanced.map_err(|why| BadAnswer::Behind(Box::new(why)))?);
    }
    Ok(known)
}

/// The claim and the transcript, each signed by the invite's key and the node key. Whoever is known to wait for a person
/// also tells of itself, and lets the gateway wait.
async fn prove(
    gateway: &mut Believed,
    shown: Shown<'_>,
    claim: &Claim,
    asking: Asking<'_>,
    pending: &crate::store::scope::Pending,
    wait: Option<Seconds>,
) -> Result<Issued, AskError> {
    let (invite_key, node_key): (_, &P256Key) = (shown.code.ticket.key(shown.code.org), asking.node_key);
    let challenge: Challenge = gateway.ask(Ask::Challenge, &()).await?;
    check_offer(gateway, &challenge, asking.known)?;
    let challenge_bytes: [u8; 32] = challenge.challenge.0.as_slice().try_into().map_err(|_| BadAnswer::Challenge)?;
    let svid = asking.request(pending, challenge.not_after)?;
    let mut envelope = Envelope::seal(Some(asking.known.org()), claim).map_err(BadAnswer::from)?;
    if let Some(key) = &invite_key {
        envelope.sign(key).map_err(BadAnswer::Key)?;
    }
    envelope.sign(node_key).map_err(BadAnswer::Key)?;
    if let Some(key) = shown.old_key {
        envelope.sign(key).map_err(BadAnswer::Key)?;
    }
    let nonce: [u8; 32] = random::bytes()?;
    let transcript =
        Transcript::new(challenge_bytes, nonce, envelope.digest(), &svid.request.0, &svid.binding, gateway.exporter());
    let by_invite = invite_key.as_ref().map(|key| transcript.sign(Purpose::Enroll, key));
    let facts = wait.map(|_| Envelope::seal(Some(asking.known.org()), &facts(envelope.digest())));
    let facts = facts.transpose().map_err(BadAnswer::from)?.map(|facts| facts.signed(node_key));
    let digest = envelope.digest();
    let wait = wait.unwrap_or(Seconds(0));
    let request = EnrollRequest {
        facts: facts.transpose().map_err(BadAnswer::Key)?,
        wait,
        claim: envelope,
        nonce: Bytes(nonce.to_vec()),
        by_invite: by_invite.transpose().map_err(BadAnswer::Key)?,
        by_node: transcript.sign(Purpose::Enroll, node_key).map_err(BadAnswer::Key)?,
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
