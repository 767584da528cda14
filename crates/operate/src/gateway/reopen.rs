//! A gateway begins another chain: what it lacks or where its chain forks, whom that leaves out, and the head that does it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ground::clock;
use identity::head::{Cause, Head};
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::members::{ClassLeaf, Meant, NodeLeaf};
use identity::principal::NodeName;
use identity::time::Timestamp;
use org::invite::{Invite, Right, Uses};
use org::ledger::chain::Written;
use org::ledger::counts::counts;
use org::ledger::entry::{Entry, SignedEntry};
use org::ledger::evidence::Evidence;
use org::ledger::fold::{Admitted, Leaves};
use org::ledger::frontier::Tip;
use org::ledger::heads::KnownHead;
use org::refusal::Refusal;
use org::state::State;

use crate::gateway::{had_by_peers, mandate_of};
use crate::key::SignerKeys;
use crate::replica::ReplicaError;
use crate::replica::roll::waiting_of;
use crate::session::fold::entries_told;
use crate::session::{Made, NextHead, Result, Session, Unsigned, Unwise};
use crate::trust::issuers;

/// What is wrong with a gateway's chain, and what its end leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reopening {
    pub gateway: NodeName,
    /// The voice that ends, and the one that comes.
    pub voice: PublicKey,
    pub next: PublicKey,
    /// It was restored from a backup: what it wrote afterwards is not known.
    pub restored: bool,
    /// It says itself that it lacks entries of its own.
    pub behind: bool,
    /// Places that it told this home of and nobody has brought.
    pub lacking: Option<(u64, u64)>,
    /// Other gateways that had entries which this one lacks: how many, and when that was.
    pub had_by: Vec<(NodeName, u64, Timestamp)>,
    pub fork: Option<Fork>,
    /// Machines that its chain admitted and that wait: they are listed one by one, or not at all.
    pub waiting: Vec<(NodeName, String)>,
    /// Invites that are signed anew, and what is left of each.
    pub invites: Vec<(InviteId, String, Uses)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    pub at: u64,
    pub branches: Vec<Branch>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub entry: Digest,
    pub at: Timestamp,
    /// How many entries it has from there on.
    pub entries: usize,
    pub admitted: Vec<NodeName>,
}

/// What reopening a gateway would end; refused if nothing is wrong with it, as far as is known here.
pub async fn look(session: &mut Session, gateway: &NodeName) -> Result<Reopening> {
    let voice = mandate_of(session.head(), gateway)?.voice;
    let state = standing_in(session).await?;
    let asked = session.survey.gateway.clone();
    let halt = session.survey.halt.clone().filter(|_| asked == *gateway);
    let (restored, behind) = (halt == Some(Refusal::Restored), halt.is_some());
    let (mut lacking, fork) = (never_brought(session, &state, voice), fork_of(&state, voice));
    if !behind && lacking.is_none() && fork.is_none() {
        lacking = left_hanging(session, &state, voice).await?;
    }
    if !behind && lacking.is_none() && fork.is_none() {
        let gateway = gateway.clone();
        let known = Unwise::NothingKnownWrong { gateway: gateway.clone(), asked: asked.clone() };
        return Err(if asked == gateway { Unwise::NothingWrong(gateway) } else { known }.into());
    }
    let told = issuers::told(session).await?.remove(gateway);
    let next = told.ok_or_else(|| Unwise::NoNextVoice(gateway.clone()))?.spare_voice;
    let invites = anew(&state, gateway, voice, next).into_iter();
    let invites = invites.map(|it| (it.id, it.label.clone(), it.uses())).collect();
    let waiting = waiting_of(&state, voice);
    let asks = asked == *gateway && !session.is_alone();
    let had_by = if asks { had_by_peers(session).await? } else { Vec::new() };
    let gateway = gateway.clone();
    Ok(Reopening { gateway, voice, next, restored, behind, lacking, had_by, fork, waiting, invites })
}

/// What this home's copy says. If nobody has the members' map of the head in force, the newest head whose members are
/// known here stands in for it: those, less whoever was revoked since.
async fn standing_in(session: &mut Session) -> Result<Arc<State>> {
    let state = session.folded().await?;
    let Some(root) = state.head().and_then(|record| record.head.members).filter(|_| state.leaves().is_none()) else {
        return Ok(state);
    };
    let (replica, now) = (Box::pin(session.replica()).await?, clock::now());
    let rank = |head: KnownHead<'_>| (head.signers().version, head.version());
    let mut heads: Vec<KnownHead<'_>> = state.heads().collect();
    heads.sort_by_key(|head| Reverse(rank(*head)));
    for newest in heads.into_iter().skip(1) {
        let mut older = State::clone(&state);
        older.replica.heads.retain(|head| rank(head) <= rank(newest));
        replica.ledger.conclude(&mut older, now).map_err(ReplicaError::from)?;
        let Some((leaves, classes)) = members_of(&older) else { continue };
        let mut state = State::clone(&state);
        state.take_map(root, leaves, classes);
        state.conclude(now);
        let state = Arc::new(state);
        session.go_by(Arc::clone(&state));
        return Ok(state);
    }
    Ok(state)
}

/// What the gateway told this home of its chain, and nobody has.
fn never_brought(session: &Session, state: &State, voice: PublicKey) -> Option<(u64, u64)> {
    let tip: Tip = session.memory.tip.as_ref()?.open_signed_by(Some(session.known.org()), &[voice]).ok()?;
    if state.has_entry(&voice, tip.place.digest) {
        return None;
    }
    let here = state.frontier.seq_of(&voice).min(tip.place.seq.saturating_sub(1));
    Some((here.saturating_add(1), tip.place.seq))
}

/// Places before an entry that follows none, as far as the asked gateway has it: what nobody brings holds up all beyond.
async fn left_hanging(session: &mut Session, state: &State, voice: PublicKey) -> Result<Option<(u64, u64)>> {
    if session.is_alone() {
        return Ok(None);
    }
    let (told, org) = (entries_told(session).await?, session.known.org());
    let opened = told.into_iter().filter_map(|envelope| SignedEntry::open(org, envelope).ok());
    let chain: BTreeMap<Digest, Entry> =
        opened.filter(|signed| signed.entry.voice == voice).map(|signed| (signed.digest, signed.entry)).collect();
    let settled = state.head().and_then(|record| record.head.record.get(&voice)).map_or(0, |at| at.seq);
    let follows = |entry: &Entry| match entry.previous {
        Some(before) => chain.contains_key(&before),
        None => entry.seq == 1,
    };
    let hangs = chain.values().filter(|entry| entry.seq > settled && !follows(entry));
    let last = hangs.map(|entry| entry.seq.saturating_sub(1)).min();
    Ok(last.map(|last| (state.frontier.seq_of(&voice).saturating_add(1).min(last), last)))
}

/// One head: the voice ends, the mandate is the spare one's, everybody who counts now is listed; and rights of open
/// invites, signed anew.
pub async fn reopen(session: &mut Session, keys: &SignerKeys, reopening: &Reopening) -> Result<Made<Head>> {
    let Reopening { gateway, voice, next, .. } = reopening;
    session
        .publish(keys, |session, now| {
            if mandate_of(session.head(), gateway)?.voice != *voice {
                return Err(Unwise::Reopened(gateway.clone()).into());
            }
            let invites = anew(session.state()?, gateway, *voice, *next).into_iter();
            let invites = invites.map(|it| session.seal(&Invite { signers: session.signers().version, ..it }));
            let objects = invites.collect::<Result<_, _>>()?;
            let next = draft(session, reopening, now)?;
            Ok(Unsigned { objects, what: next.head.clone(), next: Some(next) })
        })
        .await
}

/// The head that ends its chain and mandates the next voice.
pub fn draft(session: &Session, reopening: &Reopening, now: Timestamp) -> Result<NextHead> {
    let Reopening { gateway, next, .. } = reopening;
    session.next_head(now, Cause::GatewayReopen { gateway: gateway.clone() }, |head| {
        for mandate in head.mandates.iter_mut().filter(|mandate| mandate.gateway == *gateway) {
            mandate.voice = *next;
        }
    })
}

/// Where the chain of a gateway's voice forks, with an entry of each branch.
pub fn fork(session: &Session, voice: PublicKey) -> Option<Fork> {
    fork_of(session.state().ok()?, voice)
}

/// Who counts by the head in force of an older state, as a map would list them.
fn members_of(older: &State) -> Option<(Leaves, Vec<ClassLeaf>)> {
    let root = older.head()?.head.members;
    if root.is_some() && older.leaves().is_none() {
        return None;
    }
    let leaf = |(name, it): (&NodeName, &Admitted)| {
        let known = older.leaves().and_then(|leaves| leaves.get(name)).map(|leaf| leaf.manifest.clone());
        let manifest = known.unwrap_or(Meant::Nothing);
        (name.clone(), NodeLeaf { name: name.clone(), node_key: it.key, admission: it.admission, manifest })
    };
    let classes = root.and_then(|root| older.replica.classes.get(&root)).cloned().unwrap_or_default();
    Some((older.judged.fold.members.iter().map(leaf).collect(), classes))
}

/// Open invites that give the ending voice a right: the same, with what is left for the next. Rights of other gateways stay
/// where they are, so that nothing is spent twice.
fn anew(state: &State, gateway: &NodeName, voice: PublicKey, next: PublicKey) -> Vec<Invite> {
    let mut all = BTreeMap::new();
    for record in state.invites.values() {
        let Some(uses) = record.invite.right_of(voice) else { continue };
        if counts::<Invite>(&record.envelope, &state.judged.ground).is_err() {
            continue;
        }
        let uses = match uses {
            Uses::Unlimited => Uses::Unlimited,
            Uses::Limited(all) => match all.saturating_sub(spent(state, voice, record.invite.id)) {
                0 => continue,
                left => Uses::Limited(left),
            },
        };
        let right = Right { gateway: gateway.clone(), voice: next, uses };
        all.insert(record.invite.id, Invite { rights: vec![right], ..record.invite.clone() });
    }
    all.into_values().collect()
}

/// Node keys that came with an invite, on whichever branch.
fn spent(state: &State, voice: PublicKey, invite: InviteId) -> u32 {
    let entries = state.replica.chains.get(&voice).into_iter().flat_map(BTreeMap::values);
    let came = entries.filter_map(Written::checked);
    let with = came.filter(|evidence| evidence.invite.as_ref().is_some_and(|(_, it)| it.id == invite));
    let keys: BTreeSet<Digest> = with.map(Evidence::key).collect();
    u32::try_from(keys.len()).unwrap_or(u32::MAX)
}

fn fork_of(state: &State, voice: PublicKey) -> Option<Fork> {
    let (at, entries) = (*state.judged.fold.forks.get(&voice)?, state.replica.chains.get(&voice)?);
    let mut in_order: Vec<&Written> = entries.values().filter(|written| written.seq >= at).collect();
    in_order.sort_by_key(|written| (written.seq, written.digest));
    let first = in_order.iter().filter(|written| written.seq == at);
    let branch = |first: &&Written| {
        let mut of: BTreeSet<Digest> = BTreeSet::from([first.digest]);
        let follows = |written: &&&Written| {
            let own = of.contains(&written.digest) || written.previous.is_some_and(|before| of.contains(&before));
            own.then(|| of.insert(written.digest)).is_some()
        };
        let on_it: Vec<&&Written> = in_order.iter().filter(follows).collect();
        let checked = on_it.iter().filter_map(|written| written.checked());
        let admitted = checked.map(|evidence| evidence.claim.name.clone()).collect();
        Branch { entry: first.digest, at: first.at, entries: on_it.len(), admitted }
    };
    Some(Fork { at, branches: first.map(branch).collect() })
}
