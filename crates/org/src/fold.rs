//! From a heap of entries, in any order and with any repetition, to the state.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::head::{Epoch, SignedHead};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::Author;

use crate::entry::{Action, Cause, SignedEntry};
use crate::founding::Founding;
use crate::state::{State, Void};

/// Author and place, and the digests that claim it.
type Forks = BTreeMap<(Author, u64), BTreeSet<Digest>>;

/// What a fold gives: the state, and what could not be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    pub state: State,
    /// Forks: author, place, and the digests that claim it. Both branches are void until signers choose.
    pub forks: Forks,
    /// Entries that are no part of the ledger: foreign keys, broken chains, missing pasts, what a restore gave up.
    pub unplaced: BTreeSet<Digest>,
}

/// Folds envelopes. What does not carry its own author's signature is as if it were not there.
pub fn fold(founding: &Founding, entries: impl IntoIterator<Item = Envelope>) -> Folded {
    let opened = entries.into_iter().filter_map(|envelope| SignedEntry::open(founding.id, envelope).ok());
    fold_opened(founding, opened)
}

/// By place and epoch; where two stand, the chain forks.
type Chain = BTreeMap<u64, BTreeMap<u32, BTreeMap<Digest, SignedEntry>>>;

pub fn fold_opened(founding: &Founding, entries: impl IntoIterator<Item = SignedEntry>) -> Folded {
    let mut entries: Vec<SignedEntry> = entries.into_iter().collect();
    let mut given_up = BTreeSet::new();
    loop {
        let (mut folded, waiting) = deliver_all(founding, &entries);
        // A restore may have begun below what was delivered here: then all of it is folded again without what the
        // restore gave up. Each round drops something, so this ends.
        let Some(epoch) = elsewhere(&folded.state, &waiting) else {
            folded.unplaced.extend(given_up);
            return folded;
        };
        let gave_up = |signed: &SignedEntry| {
            let entry = &signed.entry;
            epoch.gave_up(&entry.author, entry.epoch, entry.seq)
        };
        given_up.extend(entries.iter().filter(|signed| gave_up(signed)).map(|signed| signed.digest));
        entries.retain(|signed| !gave_up(signed));
    }
}

/// A restore that the threshold signed and that could not be delivered, because the ledger here is longer.
fn elsewhere(state: &State, waiting: &[SignedEntry]) -> Option<Epoch> {
    let begun = |signed: &SignedEntry| {
        let Action::HeadPublish { head, cause: Cause::Restore } = &signed.entry.action else {
            return None;
        };
        // By one who may write at all: a head that was signed and given up gives nothing up in a stranger's entry.
        state.check_author(signed).ok()?;
        let epoch = SignedHead::open(state.signers_before(signed), head).ok()?.head.epoch;
        let longer = state.frontier.0.iter().any(|(author, at)| epoch.gave_up(author, at.epoch, at.seq));
        longer.then_some((epoch.number, signed.digest, epoch))
    };
    let mut found: Vec<_> = waiting.iter().filter_map(begun).collect();
    found.sort_by_key(|(number, digest, _)| (*number, *digest));
    found.into_iter().next().map(|(_, _, epoch)| epoch)
}

fn deliver_all(founding: &Founding, entries: &[SignedEntry]) -> (Folded, Vec<SignedEntry>) {
    // One chain per author *and key*: a forger's entries stand in a chain of their own and cannot fork another's.
    let mut chains: BTreeMap<(Author, PublicKey), Chain> = BTreeMap::new();
    for signed in entries {
        let entry = &signed.entry;
        let chain = chains.entry((entry.author.clone(), entry.key)).or_default();
        let place = chain.entry(entry.seq).or_default().entry(entry.epoch).or_default();
        place.insert(signed.digest, signed.clone());
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
    let rest = chains.into_values().flat_map(BTreeMap::into_values).flat_map(BTreeMap::into_values);
    let waiting: Vec<SignedEntry> = rest.flat_map(BTreeMap::into_values).collect();
    let unplaced = waiting.iter().map(|signed| signed.digest).collect();
    (Folded { state, forks, unplaced }, waiting)
}

/// Delivers the next place of a chain if everything that it has seen is there. What stands at any other place waits,
/// so that no odd entry holds up the rest.
fn deliver_next(state: &mut State, forks: &mut Forks, author: &Author, chain: &mut Chain) -> bool {
    let seq = state.frontier.place_of(author).map_or(0, |place| place.seq) + 1;
    let Some(epochs) = chain.get_mut(&seq) else {
        return false;
    };
    let delivered =
        epochs.iter().find_map(|(epoch, rivals)| deliver_one(state, forks, (author, seq), rivals).then_some(*epoch));
    delivered.is_some_and(|epoch| epochs.remove(&epoch).is_some())
}

fn deliver_one(
    state: &mut State,
    forks: &mut Forks,
    (author, seq): (&Author, u64),
    rivals: &BTreeMap<Digest, SignedEntry>,
) -> bool {
    let past_fork = forks.keys().any(|(forked, at)| forked == author && *at < seq);
    if rivals.len() == 1 && !past_fork {
        return rivals.values().all(|signed| state.apply(signed).is_ok());
    }
    // A fork, or what follows one. It takes its place, so that those who saw it are not stranded, but does nothing.
    // One rival that could stand proves whose key it is; the others, by the same key, need not be fit for anything.
    let stands = |signed: &SignedEntry| {
        state.check_seen(signed).is_ok() && state.check_author(signed).is_ok() && state.check_epoch(signed).is_ok()
    };
    if !rivals.values().any(stands) {
        return false;
    }
    for signed in rivals.values() {
        state.pass_over(signed, Void::Forked);
    }
    if !past_fork {
        forks.insert((author.clone(), seq), rivals.keys().copied().collect());
    }
    true
}
