//! Whose SVIDs do not lead to a new identity root yet, by each node's own signed word.

use std::collections::BTreeSet;

use identity::id::Fingerprint;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::trust::adopted::{Stance, Stances};

/// A member with an SVID from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    pub name: NodeName,
    pub why: String,
}

impl Stances {
    /// How many members there are, and those that hold an SVID which does not lead to each of these roots. One that has
    /// ended cuts nobody off: its node comes back by its node key.
    pub fn before(&self, roots: &BTreeSet<Fingerprint>, now: Timestamp) -> (usize, Vec<Before>) {
        let all = self.all();
        let before = |member: &Stance| {
            let svids = member.trust.iter().flat_map(|trust| &trust.svids);
            let mut old = svids.filter(|svid| now < svid.not_after && !roots.iter().all(|it| svid.roots.contains(it)));
            let old = old.next()?;
            Some(Before {
                name: member.name.clone(),
                why: format!("`{}` does not lead to the new root yet; it lasts until {}", old.principal, old.not_after),
            })
        };
        (all.len(), all.iter().filter_map(before).collect())
    }
}
