//! The ledger, checked here: every entry by its signature, every head's leaves by their evidence.

pub(crate) mod beside;
pub mod status;
pub mod hindsight;

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::NodeLeaf;
use org::audit;
use org::founding::Founding;
use org::ledger::chain::Chain;
use org::ledger::entry::SignedEntry;
use org::ledger::evidence::Evidence;
use org::ledger::frontier::Frontier;
use org::ledger::replica::carried;
use org::state::State;
use serde::Serialize;

use crate::session::fold::{beyond, entries_told, name_of};
use crate::session::{Result, Session};

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct AuditResult {
    pub ok: bool,
    pub entries: usize,
    pub heads: usize,
    /// So many of them do not count; the audit says why.
    pub void: usize,
    /// The first thing that does not hold.
    pub first_bad: Option<String>,
}

/// Checks all hashes, links and signatures here, and that each leaf of the head in force has its evidence.
pub async fn verify(session: &mut Session) -> Result<AuditResult> {
    let state = session.folded().await?;
    let envelopes = entries_told(session).await?;
    let mut verdict = check_alone(&session.known.founding, envelopes, &state);
    if verdict.ok && !session.is_alone() {
        // This home's copy is good, and has all that the gateway counted before. Others get what it counts now.
        session.survey_again().await?;
        let survey = &session.survey;
        let told = unlike(&state.frontier, &survey.frontier);
        verdict.first_bad = told
            .map(|(voice, what)| format!("`{}` {what} of the chain of {}", survey.gateway, name_of(&state, &voice)));
        if verdict.first_bad.is_none() {
            verdict.first_bad = session.damage().await?;
        }
        verdict.ok = verdict.first_bad.is_none();
    }
    Ok(verdict)
}

/// What a gateway hides, or shows otherwise than it is here: an entry's digest fixes all before it.
fn unlike(here: &Frontier, there: &Frontier) -> Option<(PublicKey, String)> {
    let other = here.parted(there).map(|voice| (voice, format!("shows another entry {}", here.seq_of(&voice))));
    let hidden = beyond(here, there).map(|(voice, first, last)| (voice, format!("lacks entries {first} to {last}")));
    other.chain(hidden).next()
}

/// Reads every entry afresh: what they say, and the first thing that does not hold. What does not count is a line of the
/// audit and no failure: a gateway that lies could write it at any time.
pub fn check_alone(founding: &Founding, entries: Vec<Envelope>, state: &State) -> AuditResult {
    let count = entries.len();
    let (opened, first_bad) = open_all(founding, entries, state);
    let first_bad = first_bad.or_else(|| broken_link(state)).or_else(|| without_evidence(state, &opened));
    let heads = opened.iter().flat_map(|signed| carried(&signed.entry.action));
    let heads = heads.filter(|envelope| envelope.kind() == Head::KIND).map(Envelope::digest).collect::<BTreeSet<_>>();
    let void = opened.iter().filter(|signed| audit::line(state, signed).result.starts_with("void")).count();
    AuditResult { ok: first_bad.is_none(), entries: count, heads: heads.len(), void, first_bad }
}

/// Each by its signature, and each chain from its first entry on; the first that does not hold.
fn open_all(founding: &Founding, entries: Vec<Envelope>, state: &State) -> (Vec<SignedEntry>, Option<String>) {
    let mut opened = Vec::with_capacity(entries.len());
    let mut first_bad = None;
    for (number, envelope) in entries.into_iter().enumerate() {
        match SignedEntry::open(founding.id, envelope) {
            Ok(signed) => opened.push(signed),
            Err(why) => drop(first_bad.get_or_insert(format!("entry {}: {why}", number + 1))),
        }
    }
    let first_bad = first_bad.or_else(|| missing(state, &opened));
    (opened, first_bad)
}

/// An entry that another names as the one before it, and that is not here. What a head did not settle is asked only of voices that
/// may still speak: what a closed one left hanging, operators have looked at, and no key of a thief makes the whole ledger bad.
fn missing(state: &State, entries: &[SignedEntry]) -> Option<String> {
    let there: BTreeSet<Digest> = entries.iter().map(|signed| signed.digest).collect();
    let follows = |signed: &&SignedEntry| match signed.entry.previous {
        Some(before) => there.contains(&before),
        None => signed.entry.seq == 1,
    };
    let settled = settled(state);
    let is_asked = |signed: &&SignedEntry| match (settled.get(&signed.entry.voice), state.head()) {
        (_, None) => true,
        (Some((last, entries)), _) if signed.entry.seq <= *last => entries.contains(&signed.digest),
        (_, Some(_)) => state.judged.ground.mandate(signed.entry.voice).is_some(),
    };
    let asked = entries.iter().filter(is_asked);
    let cut = asked.filter(|signed| !follows(signed)).min_by_key(|signed| signed.entry.seq)?;
    let (before, name) = (cut.entry.seq.saturating_sub(1), name_of(state, &cut.entry.voice));
    let seq = cut.entry.seq;
    Some(format!("entry {before} of the chain of {name} is missing: whoever wrote entry {seq} in that voice had it"))
}

/// What the head in force settled of each chain: up to which place, and which entries.
fn settled(state: &State) -> BTreeMap<PublicKey, (u64, BTreeSet<Digest>)> {
    let record = state.head().into_iter().flat_map(|record| &record.head.record);
    let chains = record.filter_map(|(voice, at)| Some((*voice, *at, state.replica.chains.get(voice)?)));
    let recorded = |entries, at| Chain::of(entries, Some(at)).recorded.iter().map(|written| written.digest).collect();
    chains.map(|(voice, at, entries)| (voice, (at.seq, recorded(entries, at)))).collect()
}

/// What a head settled of a gateway's chain must be here, link by link; and no chain may fork.
fn broken_link(state: &State) -> Option<String> {
    let name = |voice| name_of(state, voice);
    // What a voice wrote that was closed, operators have looked at.
    let fork = state.judged.fold.forks.iter().find(|(voice, _)| state.judged.ground.mandate(**voice).is_some());
    let fork = fork.map(|(voice, seq)| format!("the chain of {} forks at entry {seq}", name(voice)));
    let record = state.head().into_iter().flat_map(|record| &record.head.record);
    let mut lacking = record.filter(|(voice, _)| !state.judged.fold.whole.contains(voice));
    let lacking = || {
        lacking.next().map(|(voice, at)| {
            let head = state.head();
            let makers = head.map(|head| state.signers_of_object(&head.envelope).join(", ")).unwrap_or_default();
            let version = head.map(|head| head.head.version).unwrap_or_default();
            let (name, seq) = (name(voice), at.seq);
            format!("the chain of {name} is not whole up to entry {seq}: whoever made head {version} had it ({makers})")
        })
    };
    fork.or_else(lacking)
}

/// Whoever is listed was admitted by an entry that is here, under this very name and key, by whoever must have signed.
fn without_evidence(state: &State, entries: &[SignedEntry]) -> Option<String> {
    let there: BTreeMap<Digest, &SignedEntry> = entries.iter().map(|signed| (signed.digest, signed)).collect();
    let mut leaves = state.leaves().into_iter().flat_map(|leaves| leaves.values());
    leaves.find_map(|leaf| {
        let why = unproven(state.org, leaf, there.get(&leaf.admission).copied())?;
        Some(format!("`{}` is listed by head, and the entry that admitted it, {}, {why}", leaf.name, leaf.admission))
    })
}

/// Why an entry is no evidence for a leaf.
fn unproven(org: OrgId, leaf: &NodeLeaf, admission: Option<&SignedEntry>) -> Option<String> {
    let Some(signed) = admission else { return Some("is not here".to_owned()) };
    match Evidence::of(org, signed) {
        Err(why) => Some(format!("does not hold: {why}")),
        Ok(evidence) if evidence.claim.name == leaf.name && evidence.key() == leaf.node_key => None,
        Ok(evidence) => Some(format!("admitted `{}` with the node key {}", evidence.claim.name, evidence.key())),
    }
}

#[cfg(test)]
mod tests {
    use identity::head::Recorded;
    use identity::key::{EdKey, Sign as _};

    use super::*;

    #[test]
    fn a_gateway_that_hides_an_entry_or_shows_another_is_told_and_one_that_goes_on_is_not() {
        let voice = EdKey::from_seed(&[1; 32]).public();
        let at = |seq, digest| Frontier([(voice, Recorded { seq, digest: Digest([digest; 32]) })].into());
        let told = |there: &Frontier| unlike(&at(7, 1), there).map(|(_, what)| what);
        assert_eq!((told(&at(7, 1)), told(&at(8, 2))), (None, None));
        assert_eq!(told(&at(7, 2)).as_deref(), Some("shows another entry 7"));
        assert_eq!(told(&at(4, 4)).as_deref(), Some("lacks entries 5 to 7"));
        assert_eq!(told(&Frontier::default()).as_deref(), Some("lacks entries 1 to 7"));
    }
}
