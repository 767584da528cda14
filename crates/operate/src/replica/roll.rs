//! The roll (membership diff): whom a head newly lists, whom it leaves waiting, and whose keys it ends: what whoever
//! signs it sees.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Head, KeyMark};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use org::ledger::draft::{Draft, Fate};
use org::ledger::fold::{Leaves, Waiting};
use org::state::State;
use serde::Serialize;

/// So many names are told to people; all are in the JSON.
const SHOWN: usize = 5;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Roll {
    /// New members, and new keys of old ones.
    pub lists: Vec<NodeName>,
    pub leaves_waiting: Vec<Waits>,
    /// The machines whose keys it ends; keys that were never a machine's here, by themselves.
    pub revokes_keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waits {
    pub name: NodeName,
    pub why: String,
}

impl Roll {
    /// What this draft does to those whom the fold knows.
    pub(crate) fn of(state: &State, draft: &Draft) -> Self {
        let passed = draft.passed.iter().filter(|(_, fate)| **fate == Fate::Waits);
        let waits = passed.filter_map(|(entry, _)| {
            let waiting = state.judged.fold.waiting.get(entry)?;
            Some(Waits { name: waiting.claims.as_ref()?.0.clone(), why: waiting.why.to_string() })
        });
        let mut leaves_waiting: Vec<Waits> = waits.collect();
        let closes = draft.head.revocations.voices.beyond(&state.revoked().voices);
        for (name, why) in closes.flat_map(|voice| waiting_of(state, *voice)) {
            if !draft.leaves.contains_key(&name) && leaves_waiting.iter().all(|it| it.name != name) {
                leaves_waiting.push(Waits { name, why });
            }
        }
        Self {
            lists: newly_listed(state.leaves(), &draft.leaves),
            leaves_waiting,
            revokes_keys: ended(state, &draft.head),
        }
    }

    /// One line for each that there is something to say of.
    pub fn in_words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let members = |count: usize| if count == 1 { "member" } else { "members" };
        if !self.lists.is_empty() {
            let count = self.lists.len();
            lines.push(format!("lists {count} new {}: {}", members(count), names(&self.lists)));
        }
        if !self.revokes_keys.is_empty() {
            let keys = if self.revokes_keys.len() == 1 { "the key" } else { "the keys" };
            lines.push(format!("revokes {keys} of {}", names(&self.revokes_keys)));
        }
        let mut reasons: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
        for it in &self.leaves_waiting {
            reasons.entry(&it.why).or_default().push(&it.name);
        }
        lines.extend(reasons.iter().map(|(why, who)| format!("leaves {} waiting: {why}", names(who))));
        lines
    }
}

/// Whom a chain admitted and nobody lists: whoever waits when it ends.
pub(crate) fn waiting_of(state: &State, voice: PublicKey) -> Vec<(NodeName, String)> {
    let waits = waits(state).into_iter().filter(|(_, waiting)| waiting.voice == voice);
    let all: BTreeMap<NodeName, String> = waits.map(|(name, it)| (name.clone(), it.why.to_string())).collect();
    all.into_iter().collect()
}

/// Admissions that do not count, of machines that are in by no other and might be.
pub(crate) fn waits(state: &State) -> Vec<(&NodeName, &Waiting)> {
    let members: BTreeSet<Digest> = state.judged.fold.members.values().map(|member| member.key).collect();
    let waits = state.judged.fold.waiting.values().filter_map(|waiting| Some((waiting.claims.as_ref()?, waiting)));
    let open = waits.filter(|((_, key), _)| !members.contains(key) && !state.is_gone(*key));
    open.map(|((name, _), waiting)| (name, waiting)).collect()
}

pub(crate) fn newly_listed(before: Option<&Leaves>, after: &Leaves) -> Vec<NodeName> {
    let old = |name: &NodeName| before.and_then(|leaves| leaves.get(name)).map(|leaf| leaf.node_key);
    let new = after.values().filter(|leaf| old(&leaf.name) != Some(leaf.node_key));
    new.map(|leaf| leaf.name.clone()).collect()
}

/// Whose keys a head revokes that are not revoked yet.
pub(crate) fn ended(state: &State, head: &Head) -> Vec<String> {
    let named: BTreeMap<KeyMark, String> =
        state.members.iter().map(|(key, member)| (KeyMark::of(key), member.claim().name.to_string())).collect();
    let new = head.revocations.node_keys.beyond(&state.revoked().node_keys);
    new.map(|key| named.get(key).cloned().unwrap_or_else(|| key.to_string())).collect()
}

pub fn names<T: ToString>(all: &[T]) -> String {
    first_of(all, SHOWN).join(", ")
}

/// The first of them, and how many more.
pub(crate) fn first_of<T: ToString>(all: &[T], most: usize) -> Vec<String> {
    let mut shown: Vec<String> = all.iter().take(most).map(ToString::to_string).collect();
    if all.len() > most {
        shown.push(format!("and {} more", all.len() - most));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeName> {
        (1..=count).map(|nth| format!("web-{nth}").parse().unwrap()).collect()
    }

    #[test]
    fn what_a_head_does_to_machines_is_a_line_each_and_long_lists_are_cut() {
        let waits = |name: &NodeName| Waits { name: name.clone(), why: "the key was revoked".to_owned() };
        let roll = Roll {
            lists: nodes(17),
            leaves_waiting: nodes(2).iter().map(waits).collect(),
            revokes_keys: vec!["web-3".to_owned()],
        };
        let words = [
            "lists 17 new members: web-1, web-2, web-3, web-4, web-5, and 12 more",
            "revokes the key of web-3",
            "leaves web-1, web-2 waiting: the key was revoked",
        ];
        assert_eq!(roll.in_words(), words);
        assert_eq!(Roll { lists: nodes(1), ..Roll::default() }.in_words(), ["lists 1 new member: web-1"]);
        assert!(Roll::default().in_words().is_empty());
    }
}
