//! From a heap of entries, in any order and with any repetition, to the state.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::Author;

use crate::entry::SignedEntry;
use crate::founding::Founding;
use crate::state::{State, Void};

/// What a fold gives: the state, and what could not be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    pub state: State,
    /// Forks: author, place, and the digests that claim it. Both branches are void until signers choose.
    pub forks: BTreeMap<(Author, u64), BTreeSet<Digest>>,
    /// Entries that never became part of the ledger: foreign keys, broken chains, missing pasts.
    pub unplaced: BTreeSet<Digest>,
}

/// Folds envelopes. What does not carry its own author's signature is as if it were not there.
pub fn fold(founding: &Founding, entries: impl IntoIterator<Item = Envelope>) -> Folded {
    let opened = entries.into_iter().filter_map(|envelope| SignedEntry::open(founding.id, envelope).ok());
    fold_opened(founding, opened)
}

/// By place; where two stand, the chain forks.
type Chain = BTreeMap<u64, BTreeMap<Digest, SignedEntry>>;

pub fn fold_opened(founding: &Founding, entries: impl IntoIterator<Item = SignedEntry>) -> Folded {
    // One chain per author *and key*: a forger's entries stand in a chain of their own and cannot fork another's.
    let mut chains: BTreeMap<(Author, PublicKey), Chain> = BTreeMap::new();
    for signed in entries {
        let chain = chains.entry((signed.entry.author.clone(), signed.entry.key)).or_default();
        chain.entry(signed.entry.seq).or_default().insert(signed.digest, signed);
    }
    let mut state = State::of(founding);
    let mut forks = BTreeMap::new();
    loop {
        let mut moved = false;
        for ((author, _), chain) in &mut chains {
            while deliver_next(&mut state, &mut forks, author, chain) {
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let unplaced = chains.values().flat_map(|chain| chain.values().flat_map(|rivals| rivals.keys().copied())).collect();
    Folded { state, forks, unplaced }
}

/// Delivers the next place of a chain if everything that it has seen is there. What stands at any other place waits,
/// so that no odd entry holds up the rest.
fn deliver_next(
    state: &mut State,
    forks: &mut BTreeMap<(Author, u64), BTreeSet<Digest>>,
    author: &Author,
    chain: &mut Chain,
) -> bool {
    let seq = state.frontier.place_of(author).map_or(0, |place| place.seq) + 1;
    let Some(rivals) = chain.get(&seq) else {
        return false;
    };
    let past_fork = forks.keys().any(|(forked, at)| forked == author && *at < seq);
    if rivals.len() == 1 && !past_fork {
        let placed = rivals.values().all(|signed| state.apply(signed).is_ok());
        if placed {
            chain.remove(&seq);
        }
        return placed;
    }
    // A fork, or what follows one. It takes its place, so that those who saw it are not stranded, but does nothing.
    // One rival that could stand proves whose key it is; the others, by the same key, need not be fit for anything.
    let stands = |signed: &SignedEntry| state.check_seen(signed).is_ok() && state.check_author(signed).is_ok();
    if !rivals.values().any(stands) {
        return false;
    }
    for signed in rivals.values() {
        state.pass_over(signed, Void::Forked);
    }
    if !past_fork {
        forks.insert((author.clone(), seq), rivals.keys().copied().collect());
    }
    chain.remove(&seq);
    true
}
