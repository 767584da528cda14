//! What a next head may settle, and by which older heads members may show themselves: its maker asks, and so does whoever
//! co-signs it. Pure.

use std::collections::BTreeMap;

use identity::head::{RECENT, Recorded};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::ledger::chain::Chain;
use crate::ledger::fold::Leaves;
use crate::ledger::heads::KnownHead;
use crate::ledger::replica::Replica;
use crate::ledger::step::Sets;

/// Does the chain lead to this place, on from what is settled already? Of two branches the settled one stays. Nothing if the
/// entries are not here.
pub fn leads_on(replica: &Replica, voice: PublicKey, at: Recorded, settled: Option<Recorded>) -> Option<bool> {
    if settled == Some(at) {
        return Some(true);
    }
    let entries = replica.chains.get(&voice)?;
    let Some(written) = entries.get(&at.digest) else {
        return entries.values().any(|other| other.seq == at.seq).then_some(false);
    };
    let chain = Chain::of(entries, Some(at));
    let linked = settled.map_or(chain.whole, |own| chain.recorded.iter().any(|it| it.digest == own.digest));
    let first = chain.recorded.first().map_or(at.seq, |first| first.seq);
    // One that leads past what is settled leads elsewhere; of one that ends before that nobody can tell.
    let passed = settled.is_some_and(|own| first <= own.seq);
    if written.seq == at.seq && linked { Some(true) } else { (written.seq != at.seq || passed).then_some(false) }
}

/// Of a head that is to be: which older ones it may name in `recent`.
#[derive(Debug)]
pub struct Recent<'a> {
    replica: &'a Replica,
    sets: &'a Sets,
    issued_at: Timestamp,
    names: BTreeMap<Digest, &'a NodeName>,
}

impl<'a> Recent<'a> {
    pub fn of(replica: &'a Replica, sets: &'a Sets, issued_at: Timestamp, lists: &'a Leaves) -> Self {
        let names = lists.values().map(|leaf| (leaf.node_key, &leaf.name)).collect();
        Self { replica, sets, issued_at, names }
    }

    /// Its time must not be over, and it shows no key under a name that it has no longer. Nothing if its map is not here.
    pub fn may_name(&self, head: KnownHead<'_>) -> Option<bool> {
        let young = self.issued_at.since(head.issued_at()) <= RECENT;
        let counts = young && head.members().is_some() && head.is_signed(self.sets);
        if counts { self.keeps_names(head) } else { Some(false) }
    }

    pub(crate) fn keeps_names(&self, head: KnownHead<'_>) -> Option<bool> {
        let leaves = self.replica.maps.get(&head.members()?)?;
        let stays = |key: &Digest, name: &NodeName| self.names.get(key).is_none_or(|now| *now == name);
        Some(leaves.values().all(|leaf| stays(&leaf.node_key, &leaf.name)))
    }
}
