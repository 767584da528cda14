//! What this home's own copy of the ledger says, brought up to date: nothing is signed on a gateway's word.

use std::collections::BTreeSet;
use std::sync::Arc;

use ground::clock;
use identity::causes::describe;
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use org::ledger::entry::SignedEntry;
use org::ledger::frontier::Frontier;
use org::ledger::heads::HeadRecord;
use org::ledger::heads::KnownHead;
use org::state::State;
use wire::control::{Call, ControlAnswer};

use crate::replica::{self, Read, Replica, ReplicaError};
use crate::session::{DeskError, OperateError, Result, Session, maps};

impl Session {
    /// What this home's own copy of the ledger says, brought up to date.
    pub(crate) async fn folded(&mut self) -> Result<Arc<State>> {
        // Once per command, unless the ledger moved.
        if let Some(state) = self.fold.as_ref().filter(|state| self.is_whole(state)) {
            return Ok(Arc::clone(state));
        }
        let state = Arc::new(Box::pin(self.replica()).await?.state);
        self.fold = Some(Arc::clone(&state));
        if self.is_whole(&state) {
            return Ok(state);
        }
        let lacks = counted_elsewhere(&state, &self.survey.gateway, &self.survey.frontier);
        if lacks.is_empty() { Err(OperateError::LedgerBehind) } else { Err(OperateError::NotBrought(lacks)) }
    }

    /// For who only looks: what is here, also if a gateway counts what it does not bring, or brings what is not taken.
    pub(crate) async fn fold_here(&mut self) -> Result<Arc<State>> {
        match self.folded().await {
            Ok(state) => return Ok(state),
            Err(OperateError::LedgerBehind | OperateError::NotBrought(_)) => {}
            Err(why) => self.copy_trouble = Some(describe(&why)),
        }
        if self.fold.is_none() {
            let replica = Replica::open(&self.folder, &self.known)?.unlocked();
            self.fold = Some(Arc::new(replica.state));
        }
        self.fold.clone().ok_or(OperateError::LedgerBehind)
    }

    /// What was folded last.
    pub(crate) fn state(&self) -> Result<&State> {
        self.fold.as_deref().ok_or(OperateError::LedgerBehind)
    }

    /// Has it go by another state than the copy says, until the ledger moves.
    pub(crate) fn go_by(&mut self, state: Arc<State>) {
        (self.fold, self.extent) = (Some(state), None);
    }

    /// A gateway that keeps something back must not have it missed: what it counts, and the head that it shows. One that
    /// this home followed before its signers were contested is here, and counts for nothing.
    pub(super) fn is_whole(&self, state: &State) -> bool {
        let head = self.known.head.digest;
        let left = *state.signer_set() != self.known.signers && state.replica.heads.contains(&head);
        state.frontier.covers_all(&self.survey.frontier) && (left || state.head_named(head).is_some())
    }

    /// Brings the copy up to date, if it is not. Nothing that is asked of the gateway waits for it to succeed.
    pub(super) async fn pull(&mut self) {
        let (pulled, there) = (&self.memory.pulled, &self.survey.frontier);
        let has_all = pulled.covers_all(there) && pulled.parted(there).next().is_none() && !self.survey.is_odd();
        let is_kept = replica::path(&self.folder).exists();
        if (!self.brings() || (has_all && is_kept)) && !self.memory.beside {
            return;
        }
        match Box::pin(self.replica()).await {
            Ok(replica) => self.fold = Some(Arc::new(replica.state)),
            Err(why) => {
                if matches!(&why, OperateError::Replica(why) if why.is_full()) {
                    // A copy that cannot be written takes no room that the rest may need.
                    replica::remove(&replica::path(&self.folder));
                }
                self.copy_trouble = Some(describe(&why));
            }
        }
    }

    /// This home's copy, with all that the gateway has.
    pub(crate) async fn replica(&mut self) -> Result<Replica> {
        let before = self.fold.clone().zip(self.extent).map(|(state, extent)| Read { state, extent });
        let mut replica = Replica::open_again(&self.folder, &self.known, before)?;
        if !self.brings() {
            return Ok(replica);
        }
        // One that is held back may have a branch of its chain that is no longer than what is here.
        let mut suspects = self.survey.halt.is_some() || !replica.knows(&self.survey.forks);
        loop {
            let parted = suspects || replica.state.frontier.parted(&self.survey.frontier).next().is_some();
            if replica.state.frontier.covers_all(&self.survey.frontier) && !parted {
                break;
            }
            suspects = false;
            let call = Call::Beyond { frontier: replica.state.frontier.clone() };
            let ControlAnswer::Beyond { entries, more } = self.ask(call).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            // Whoever says that there is more, and brings nothing new, is not asked for ever.
            if replica.take(entries)? == 0 || (parted && !more) {
                break;
            }
        }
        replica.take_steps(&self.known)?;
        // A machine may have shown it to the gateway: then it stands in no chain that is there.
        if self.survey.head.digest() == self.known.head.digest {
            replica.take_head(&self.survey.head)?;
        }
        replica.date_sights(&self.known)?;
        self.extent = Some(replica.ledger.extent().map_err(ReplicaError::from)?);
        let mut replica = replica.unlocked();
        self.fetch_map(&mut replica).await?;
        let (frontier, now) = (replica.state.frontier.clone(), clock::now());
        let beside = !replica.state.judged.ground.rivals.is_empty();
        // Whoever opened the folder of a gateway that is stopped has not seen it there.
        let served_at = if self.is_served() { Some(now) } else { self.memory.served_at };
        self.remember(|memory| {
            (memory.pulled, memory.pulled_at, memory.beside) = (frontier, Some(now), beside);
            memory.served_at = served_at;
        })?;
        Ok(replica)
    }

    /// The members' map of the head in force, if it is not here: without it nobody is known to be listed. Where several sets
    /// claim one place, those of their heads, too: whoever settles it goes on from one of them.
    async fn fetch_map(&mut self, replica: &mut Replica) -> Result<()> {
        for root in replica.state.claimed_maps() {
            if self.kept().leaves(root).is_none() {
                self.fetch(root).await?;
            }
        }
        let root = replica.state.head().and_then(|record| record.head.members);
        let Some(root) = root.filter(|_| replica.state.leaves().is_none()) else { return Ok(()) };
        if self.fetch(root).await? {
            replica.conclude()?;
        }
        Ok(())
    }

    /// False if it is not there: it may come later, from another gateway.
    async fn fetch(&mut self, root: Digest) -> Result<bool> {
        match maps::published_as(self, root).await {
            Ok(_) => Ok(true),
            Err(OperateError::NotKept { .. }) => Ok(false),
            Err(why) => Err(why),
        }
    }
}

/// Every entry, as this home has it.
pub(crate) async fn entries(session: &mut Session) -> Result<Vec<SignedEntry>> {
    Ok(Box::pin(session.replica()).await?.ledger.all_entries().map_err(ReplicaError::from)?)
}

/// The same, with what the gateway has besides: behind a place that is empty there, what follows belongs to no frontier, and
/// comes to whoever asks.
pub(crate) async fn entries_told(session: &mut Session) -> Result<Vec<Envelope>> {
    let mut all: Vec<Envelope> = entries(session).await?.into_iter().map(|signed| signed.envelope).collect();
    if !session.brings() {
        return Ok(all);
    }
    let frontier = session.state()?.frontier.clone();
    let ControlAnswer::Beyond { entries: told, .. } = session.ask(Call::Beyond { frontier }).await? else {
        return Err(DeskError::OtherAnswer.into());
    };
    let here: BTreeSet<Digest> = all.iter().map(Envelope::digest).collect();
    all.extend(told.into_iter().filter(|envelope| !here.contains(&envelope.digest())));
    Ok(all)
}

/// Of older heads this home has most on its disk alone.
pub(crate) async fn whole_head(session: &mut Session, head: KnownHead<'_>) -> Result<HeadRecord> {
    if let KnownHead::Whole(record) = head {
        return Ok(record.clone());
    }
    let digest = head.digest();
    let replica = Box::pin(session.replica()).await?;
    let found = replica.ledger.heads(&BTreeSet::from([digest])).map_err(ReplicaError::from)?;
    let envelope = found.into_iter().next().ok_or(OperateError::NotKept { what: "the head", digest })?;
    let head: Head = envelope.peek(Some(session.known.org()))?;
    Ok(HeadRecord { digest, envelope, head })
}

/// What a gateway counts, and this home's copy lacks.
fn counted_elsewhere(state: &State, asked: &NodeName, there: &Frontier) -> Vec<String> {
    let line = |(voice, first, last): (PublicKey, u64, u64)| {
        let name = name_of(state, &voice);
        format!("`{asked}` counts entries {first} to {last} of the chain of {name}, and does not bring them")
    };
    beyond(there, &state.frontier).map(line).collect()
}

/// What one of this home and the gateway has, and the other lacks.
pub(crate) fn apart(state: &State, asked: &NodeName, there: &Frontier) -> Vec<String> {
    let mut lines = counted_elsewhere(state, asked, there);
    lines.extend(beyond(&state.frontier, there).map(|(voice, first, last)| {
        let name = name_of(state, &voice);
        format!(
            "`{asked}` lacks entries {first} to {last} of the chain of {name}: this home has them, and hands them over"
        )
    }));
    lines
}

pub(crate) fn name_of(state: &State, voice: &PublicKey) -> String {
    state.judged.voices.get(voice).map_or_else(|| voice.to_string(), |gateway| format!("`{gateway}`"))
}

/// What one has of each chain and the other lacks: the first and the last place.
pub(crate) fn beyond<'a>(one: &'a Frontier, other: &'a Frontier) -> impl Iterator<Item = (PublicKey, u64, u64)> + 'a {
    let places = one.0.iter().map(|(voice, place)| (*voice, other.seq_of(voice).saturating_add(1), place.seq));
    places.filter(|(_, first, last)| first <= last)
}

#[cfg(test)]
mod tests {
    use identity::head::Recorded;
    use identity::key::{EdKey, Sign as _};

    use super::*;

    #[test]
    fn what_one_has_and_the_other_lacks_is_told_by_first_and_last_place() {
        let [a, b] = [1, 2].map(|seed| EdKey::from_seed(&[seed; 32]).public());
        let of = |places: &[(PublicKey, u64)]| {
            let at = |(voice, seq): &(PublicKey, u64)| (*voice, Recorded { seq: *seq, digest: Digest([0; 32]) });
            Frontier(places.iter().map(at).collect())
        };
        let (one, other) = (of(&[(a, 7), (b, 2)]), of(&[(a, 4), (b, 2)]));
        assert_eq!(beyond(&one, &other).collect::<Vec<_>>(), [(a, 5, 7)]);
        assert_eq!(beyond(&other, &one).count(), 0);
        assert_eq!(beyond(&one, &Frontier::default()).count(), 2, "a chain that is not there at all, too");
    }
}
