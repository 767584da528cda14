//! Machines that wait for a person: all that is signed is checked here, where the key is; then one signer says yes or no.

use std::net::IpAddr;

use ground::clock;
use identity::head::{Cause, Head};
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::principal::{NodeName, SignerName};
use identity::time::Timestamp;
use org::enroll::{self, Attempt, EnrollOutcome};
use org::invite::Invite;
use org::invite::admission::{Claim, Facts};
use org::invite::approve::Decision;
use org::invite::words::{self, Words};
use org::ledger::draft::Wish;
use org::state::grant::{KnownInvite, ProvenClaim};
use org::state::{MemberRecord, Standing, State};
use wire::control::{Call, ControlAnswer, WaitingView};

use crate::key::SignerKeys;
use crate::pending::signed_by;
use crate::session::{Aim, DeskError, Made, NextHead, Result, Session};

/// A machine that waits. Everything but its address and its times was checked against signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingClaim {
    pub claim: Claim,
    pub digest: Digest,
    pub words: Words,
    /// What it tells of itself; nothing, or nothing that holds, if absent.
    pub facts: Option<Facts>,
    pub invite: Invite,
    /// By the gateway's word.
    pub source: IpAddr,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// Signers of today who said yes, and until when that counts.
    pub yes: Vec<SignerName>,
    pub yes_until: Option<Timestamp>,
}

/// A member whose admission does not count any more, because its invite or its gateway was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    pub name: NodeName,
    pub node_key: PublicKey,
    pub admission: Digest,
    pub invite: Option<InviteId>,
    pub gateway: NodeName,
    pub at: Timestamp,
    /// Why it waits.
    pub why: String,
}

impl CutOff {
    fn of(member: &MemberRecord) -> Self {
        let admission = &member.admission;
        Self {
            name: member.claim().name.clone(),
            node_key: member.claim().node_key,
            admission: admission.digest,
            invite: admission.invite,
            gateway: admission.gateway.clone(),
            at: admission.at,
            why: member.why.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Why it is not clear which machine is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unclear {
    Nobody,
    Several(Vec<WaitingClaim>),
}

/// The machine that an operator means, and whether that was said by all seven words or the whole digest: then it was
/// compared already.
pub fn pick(waiting: &[WaitingClaim], said: &str) -> Result<(WaitingClaim, bool), Unclear> {
    let numbers = words::read(said).filter(|numbers| !numbers.is_empty());
    let all = numbers.as_ref().is_some_and(|numbers| numbers.len() == Words::COUNT);
    let digits = said.len() >= 8 && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = |fits: &dyn Fn(&&WaitingClaim) -> bool| waiting.iter().filter(fits).cloned().collect::<Vec<_>>();
    let by_words = |one: &&WaitingClaim| numbers.as_ref().is_some_and(|numbers| one.words.begin_with(numbers));
    let by_name = named(&|one| one.claim.name.as_str() == said);
    let (mut found, certain) = if all {
        (named(&by_words), true)
    } else if !by_name.is_empty() {
        (by_name, false)
    } else if digits {
        (named(&|one| one.digest.to_string().starts_with(&said.to_ascii_lowercase())), said.len() == 64)
    } else if numbers.as_ref().is_some_and(|numbers| numbers.len() >= 3) {
        (named(&by_words), false)
    } else {
        (Vec::new(), false)
    };
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Unclear::Nobody),
        (Some(one), true) => Ok((one, certain)),
        (Some(one), false) => {
            found.push(one);
            Err(Unclear::Several(found))
        }
    }
}

/// Does a node key, as people are shown it, begin so?
pub(super) fn begins(key: &PublicKey, prefix: &str) -> bool {
    key.digest().to_string().starts_with(&prefix.to_ascii_lowercase())
}

/// The one of this name whose key begins so; without a key, the only one. Else those that fit.
pub(super) fn choose(mut cut: Vec<CutOff>, name: &NodeName, key: Option<&str>) -> Result<CutOff, Vec<CutOff>> {
    cut.retain(|cut| cut.name == *name && key.is_none_or(|prefix| begins(&cut.node_key, prefix)));
    match cut.pop() {
        Some(one) if cut.is_empty() => Ok(one),
        last => Err(cut.into_iter().chain(last).collect()),
    }
}

/// Every machine that waits, and, in words, what the gateway showed that does not hold.
pub async fn all(session: &mut Session) -> Result<(Vec<WaitingClaim>, Vec<String>)> {
    let (state, gateway) = (session.fold_here().await?, session.survey.gateway.clone());
    let (mut all, mut odd, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let ControlAnswer::Waiting { waiting, next } = session.ask(Call::Waiting { after }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        for view in waiting {
            let claim = view.claim.digest();
            match check_waiting(&state, &gateway, view) {
                Ok((one, doubt)) => {
                    odd.extend(doubt);
                    all.push(one);
                }
                Err(why) => odd.push(format!("the gateway shows claim {claim}, but {why}")),
            }
        }
        match next {
            // Only forward, however the gateway counts.
            Some(next) if after.is_none_or(|after| next > after) => after = Some(next),
            _ => break,
        }
    }
    all.sort_by(|a, b| (a.first_seen, &a.claim.name, a.digest).cmp(&(b.first_seen, &b.claim.name, b.digest)));
    Ok((all, odd))
}

/// Judged here as its gateway must: nothing of it is the gateway's word but address and times.
fn check_waiting(
    state: &State,
    gateway: &NodeName,
    view: WaitingView,
) -> Result<(WaitingClaim, Option<String>), String> {
    let (org, digest) = (state.org, view.claim.digest());
    let named: Claim = view.claim.peek(Some(org)).map_err(|_| "it cannot be read")?;
    let attempt = Attempt { claim: &named, claimed: digest, source: view.source, gateway, now: clock::now() };
    let outcome = enroll::consider(state, attempt).map_err(|why| why.to_string())?;
    let invite = match &outcome {
        EnrollOutcome::Wait { invite } | EnrollOutcome::Admit { invite, approval: Some(_) } => invite.invite.clone(),
        EnrollOutcome::Admit { approval: None, .. } | EnrollOutcome::Again { .. } => {
            return Err("nobody need look at it".to_owned());
        }
    };
    if !view.invite.peek(Some(org)).is_ok_and(|shown: Invite| shown.id == invite.id) {
        return Err("under another invite than its own".to_owned());
    }
    let proven = ProvenClaim::check(view.claim, org, &KnownInvite::from(&outcome));
    let claim = proven.map_err(|_| "it is not signed by the machine's key and its invite's")?.claim().clone();
    let facts = view.facts.as_ref().map(|facts| facts.open_signed_by::<Facts>(Some(org), &[claim.node_key]));
    let facts = facts.map(|facts| facts.ok().filter(|facts| facts.claim == digest && facts.is_plain()));
    let doubt = matches!(facts, Some(None))
        .then(|| format!("what the gateway shows as the facts of `{}` is not what that machine signed", claim.name));
    let mut said = state.yes_to(digest, clock::now());
    let said = said.find_map(|said| Some((said, said.peek::<Decision>(Some(org)).ok()?.until?)));
    let waiting = WaitingClaim {
        digest,
        words: Words::of(digest),
        facts: facts.flatten(),
        source: view.source,
        first_seen: view.first_seen,
        last_seen: view.last_seen,
        yes: said.map(|(said, _)| signed_by(&state.signer_set().quorum, said)).unwrap_or_default(),
        yes_until: said.map(|(_, until)| until),
        invite,
        claim,
    };
    Ok((waiting, doubt))
}

/// Every machine whose admission does not count, or that contests a name, in the order of names: by the ledger, folded here.
pub async fn cut_off(session: &mut Session) -> Result<Vec<CutOff>> {
    let state = session.folded().await?;
    let waits = state.members.values().filter(|member| state.standing(member) == Standing::Waiting);
    let mut all: Vec<CutOff> = waits.map(CutOff::of).collect();
    all.sort_by(|a, b| (&a.name, a.at).cmp(&(&b.name, b.at)));
    Ok(all)
}

/// The signer who speaks here.
pub fn speaker(session: &Session, keys: &SignerKeys) -> Result<SignerName> {
    let (own, _) = keys.author(session.memory.signer.as_ref(), &session.signers().quorum)?;
    Ok(own.clone())
}

/// Lists a machine that waits: a leaf is the approval, and outlives its invite and its gateway.
pub async fn list(session: &mut Session, keys: &SignerKeys, waits: &CutOff) -> Result<Made<Head>> {
    session.publish_head(keys, |session, now| draft_listing(session, waits, now)).await
}

pub fn draft_listing(session: &Session, waits: &CutOff, now: Timestamp) -> Result<NextHead> {
    let cause = Cause::NodeList { name: waits.name.clone(), node_key: waits.node_key.digest() };
    session.next_head(now, Aim::new(cause, Wish { list: vec![waits.admission], ..Wish::default() }), |_| {})
}

/// One signer's yes to a claim. Whoever said it before said the same: words add up in the ledger.
pub async fn approve(session: &mut Session, keys: &SignerKeys, one: &WaitingClaim) -> Result<()> {
    let said = |now| {
        let own = Decision::yes(one.digest, &one.invite, now);
        let same = Decision { until: one.yes_until, ..own.clone() };
        if same.is_yes_to(one.digest, now) { same } else { own }
    };
    session.say(keys, |session, now| session.seal(&said(now))).await?;
    Ok(())
}

/// One signer's no to a claim or to a waiver, which could let somebody in until then. It stands.
pub async fn deny(session: &mut Session, keys: &SignerKeys, about: Digest, ends: Timestamp) -> Result<()> {
    let span = |session: &Session| session.head().fresh_until.since(session.head().issued_at);
    session.say(keys, |session, _| session.seal(&Decision::no(about, ends, span(session)))).await?;
    Ok(())
}
