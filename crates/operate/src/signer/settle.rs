//! Several signer sets claim one place: whoever signs for each of them makes one of them all, at once and for everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use identity::head::Cause;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::{Quorum, Signer, SignerSet, Succession, Word};
use identity::time::Timestamp;
use org::ledger::heads::KnownHead;
use org::ledger::signers::{Frozen, Signers};
use org::state::State;

use crate::key::SignerKeys;
use crate::session::{Made, NextHead, OperateError, Result, Session, Unsigned, Unwise};
use crate::signer::{check_names, weigh};

/// What a person chooses; else everybody signs whom nobody removed, and as many must agree as in the strictest of the sets.
#[derive(Debug, Clone, Default)]
pub struct SettleTerms {
    pub threshold: Option<usize>,
    pub without: Vec<SignerName>,
}

/// One of the sets that claim one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    pub set: SignerSet,
    /// Since when it is known here.
    pub since: Option<Timestamp>,
    pub head: Option<RivalHead>,
}

/// The highest head that such a set signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RivalHead {
    pub version: u64,
    pub issued_at: Timestamp,
    pub digest: Digest,
}

/// Why somebody who signs for one of the sets is not in the one that follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// One of the sets removed the key.
    Removed,
    /// The name stands for another key in each.
    TwoKeys,
    Chosen,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "one of the sets removed that key, and a removed key never returns",
            Self::TwoKeys => "the name stands for another key in each set: add them afterwards, under new names",
            Self::Chosen => "as you say",
        })
    }
}

/// What would become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settling {
    /// By the ids of their sets: whoever has seen the same makes the same of it.
    pub rivals: Vec<Rival>,
    pub set: SignerSet,
    pub left_out: Vec<(SignerName, LeftOut)>,
}

/// Nothing if no two sets claim one place here.
pub async fn settling(session: &mut Session, terms: &SettleTerms) -> Result<Option<Settling>> {
    let state = Box::pin(session.folded()).await?;
    match &state.judged.signers {
        Signers::InForce(_) => Ok(None),
        Signers::Frozen(frozen) => Settling::of(&state, frozen, terms).map(Some),
    }
}

/// One set that follows all of them, signed as far as the keys at hand go, with its first head. `shown` is what people said yes
/// to: nothing else is signed.
pub async fn settle(
    session: &mut Session,
    keys: &SignerKeys,
    terms: &SettleTerms,
    shown: &Settling,
) -> Result<Made<u64>> {
    session
        .publish(keys, |session, now| {
            let state = session.state()?;
            let still = match &state.judged.signers {
                Signers::Frozen(frozen) => Settling::of(state, frozen, terms)?.is_as(shown),
                Signers::InForce(_) => false,
            };
            if !still {
                return Err(Unwise::ClaimedMeanwhile.into());
            }
            check_names(&session.known, &shown.set.quorum)?;
            let next = first_head(session, shown, now)?;
            let step = session.seal(&shown.step(next.head.previous.first().copied()))?;
            Ok(Unsigned { objects: vec![step], what: next.head.version, next: Some(next) })
        })
        .await
}

/// The first head of the set: it goes on from the highest that one of the others signed, and takes all of them in.
pub fn first_head(session: &Session, settling: &Settling, now: Timestamp) -> Result<NextHead> {
    let settled = weigh::settled(session.state()?, &settling.set, |root| session.kept().leaves(root));
    let settled = settled.ok_or(OperateError::LedgerBehind)?;
    let root = settled.head().and_then(|record| record.head.members);
    if let Some(digest) = root.filter(|_| settled.leaves().is_none()) {
        return Err(OperateError::NotKept { what: "the members' map from which it would go on,", digest });
    }
    let above = session.known.head.head.version.saturating_add(1);
    session.next_head_on(&settled, now, Cause::SignersInstall.into(), |head| head.version = head.version.max(above))
}

impl Settling {
    fn of(state: &State, frozen: &Frozen, terms: &SettleTerms) -> Result<Self> {
        let by_all = |step: &Digest| state.replica.steps.get(step).is_some_and(|step| step.word == Word::Signers);
        if frozen.pending.iter().any(|(step, _)| by_all(step)) {
            return Err(Unwise::SettledTwice.into());
        }
        let quorums: Vec<&Quorum> = frozen.rivals.iter().map(|set| &set.quorum).collect();
        let (quorum, left_out) = together(&frozen.last.quorum, &quorums, terms)?;
        let heads = state.claimed_heads();
        let rival = |set: &SignerSet| {
            let head = heads.iter().find(|record| KnownHead::Whole(record).is_of(set));
            let head = head.map(|record| RivalHead {
                version: record.head.version,
                issued_at: record.head.issued_at,
                digest: record.digest,
            });
            Rival { set: set.clone(), since: state.claimed_since(set), head }
        };
        let mut rivals: Vec<Rival> = frozen.rivals.iter().map(rival).collect();
        rivals.sort_by_key(|rival| rival.set.id);
        let set = SignerSet::later(state.org, frozen.last.version + 2, quorum);
        Ok(Self { rivals, set, left_out })
    }

    /// Clocks may have been set meanwhile.
    fn is_as(&self, other: &Self) -> bool {
        let heads = |it: &Self| it.rivals.iter().map(|rival| (rival.set.id, rival.head)).collect::<Vec<_>>();
        self.set == other.set && heads(self) == heads(other)
    }

    /// All of them sign it; the head stands in until the set has signed one.
    fn step(&self, head: Option<Digest>) -> Succession {
        let mut ids = self.rivals.iter().map(|rival| rival.set.id);
        let (version, quorum) = (self.set.version, self.set.quorum.clone());
        Succession { version, previous: ids.next().unwrap_or(self.set.id), also: ids.collect(), quorum, head }
    }
}

/// Everybody who signs for one of the sets, but for whom one of them removed.
fn together(last: &Quorum, rivals: &[&Quorum], terms: &SettleTerms) -> Result<(Quorum, Vec<(SignerName, LeftOut)>)> {
    let mut named: BTreeMap<&SignerName, BTreeSet<PublicKey>> = BTreeMap::new();
    for signer in rivals.iter().flat_map(|quorum| quorum.signers()) {
        named.entry(&signer.name).or_default().insert(signer.key);
    }
    if let Some(name) = terms.without.iter().find(|name| !named.contains_key(name)) {
        return Err(OperateError::no_such("signer", name));
    }
    let removed =
        |key: &PublicKey| last.keys().contains(key) && rivals.iter().any(|quorum| !quorum.keys().contains(key));
    let (mut signers, mut left_out) = (Vec::new(), Vec::new());
    for (name, keys) in named {
        match keys.first().copied() {
            _ if terms.without.contains(name) => left_out.push((name.clone(), LeftOut::Chosen)),
            _ if keys.len() > 1 => left_out.push((name.clone(), LeftOut::TwoKeys)),
            Some(key) if removed(&key) => left_out.push((name.clone(), LeftOut::Removed)),
            Some(key) => signers.push(Signer { name: name.clone(), key }),
            None => {}
        }
    }
    if signers.is_empty() {
        return Err(Unwise::NobodyLeft.into());
    }
    let strictest = rivals.iter().map(|quorum| quorum.threshold()).max().unwrap_or(1);
    let quorum = Quorum::new(terms.threshold.unwrap_or(strictest), signers);
    Ok((quorum.map_err(Unwise::SettledQuorum)?, left_out))
}

#[cfg(test)]
mod tests {
    use identity::key::{EdKey, Sign as _};

    use super::*;

    /// `name` alone, or `name=SEED` for a key of another seed than its name gives.
    fn quorum(threshold: usize, names: &[&str]) -> Quorum {
        let signer = |told: &&str| {
            let (name, seed) = told.split_once('=').unwrap_or((told, told));
            let key = EdKey::from_seed(&identity::id::sha256(seed.as_bytes())).public();
            Signer { name: name.parse().unwrap(), key }
        };
        Quorum::new(threshold, names.iter().map(signer).collect()).unwrap()
    }

    type Together = (usize, String, Vec<LeftOut>);

    fn made(last: &[&str], rivals: &[(usize, &[&str])], terms: &SettleTerms) -> std::result::Result<Together, String> {
        let rivals: Vec<Quorum> = rivals.iter().map(|(threshold, names)| quorum(*threshold, names)).collect();
        let rivals: Vec<&Quorum> = rivals.iter().collect();
        let (quorum, left_out) = together(&quorum(1, last), &rivals, terms).map_err(|why| why.to_string())?;
        let names: Vec<String> = quorum.signers().iter().map(|signer| signer.name.to_string()).collect();
        Ok((quorum.threshold(), names.join(" "), left_out.into_iter().map(|(_, why)| why).collect()))
    }

    #[test]
    fn whoever_signs_for_one_of_them_signs_for_all_unless_one_of_them_removed_that_key() {
        let ours = SettleTerms::default();
        let said = |text: &str| text.to_owned();
        let colleagues: [(usize, &[&str]); 2] = [(1, &["ann", "ben", "cat"]), (2, &["ann", "ben", "dan"])];
        let all = made(&["ann", "ben"], &colleagues, &ours);
        assert_eq!(all, Ok((2, said("ann ben cat dan"), vec![])), "as many as in the strictest");
        let replaced: [(usize, &[&str]); 2] = [(1, &["ann-2", "ben"]), (1, &["ann", "ben", "dan"])];
        let went = made(&["ann", "ben"], &replaced, &ours);
        assert_eq!(went, Ok((1, said("ann-2 ben dan"), vec![LeftOut::Removed])));
        let alike: [(usize, &[&str]); 2] = [(1, &["ann", "cat"]), (1, &["ann", "cat=other"])];
        assert_eq!(made(&["ann"], &alike, &ours), Ok((1, said("ann"), vec![LeftOut::TwoKeys])));
        let feud: [(usize, &[&str]); 2] = [(1, &["ann"]), (1, &["ben"])];
        assert!(made(&["ann", "ben"], &feud, &ours).unwrap_err().contains("freehold recover"));
    }

    #[test]
    fn people_choose_who_is_left_out_and_how_many_must_agree() {
        let colleagues: [(usize, &[&str]); 2] = [(1, &["ann", "ben", "cat"]), (2, &["ann", "ben", "dan"])];
        let terms = |threshold, without: &[&str]| SettleTerms {
            threshold,
            without: without.iter().map(|name| name.parse().unwrap()).collect(),
        };
        let chosen = made(&["ann", "ben"], &colleagues, &terms(Some(3), &["dan"]));
        assert_eq!(chosen, Ok((3, "ann ben cat".to_owned(), vec![LeftOut::Chosen])));
        let too_many = made(&["ann", "ben"], &colleagues, &terms(Some(5), &[])).unwrap_err();
        assert!(too_many.contains("5 of 4 cannot be met; choose another --threshold"), "{too_many}");
        let nobody = made(&["ann", "ben"], &colleagues, &terms(None, &["eve"])).unwrap_err();
        assert!(nobody.contains("there is no signer `eve`"), "{nobody}");
    }
}
