//! What comes to a replica: from operators, from other replicas, and from its own gateway.

use std::collections::BTreeMap;

use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::{Cause, Recorded};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::ClassLeaf;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::ledger::chain::{Act, Written};
use crate::ledger::entry::{Action, Entry, SignedEntry, Under};
use crate::ledger::fold::{Admitted, Leaves, Why, before, considered};
use crate::ledger::heads::KnownHead;
use crate::ledger::judge::{Fact, Facts, Link, NotMember};
use crate::ledger::replica::carried;
use crate::state::State;
use crate::state::conclude::admission;
use crate::state::grant::Granted;

/// What an entry changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The machine that it is about, and nothing else.
    Narrow,
    /// Everything was judged again.
    Wide,
}

/// Why an entry of this gateway's own is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    #[error("it does not follow the last entry of its chain")]
    OutOfTurn,
    #[error(transparent)]
    Waits(#[from] Why),
}

impl State {
    /// Takes whatever it is. The caller concludes when all is there.
    pub fn take(&mut self, envelope: &Envelope, now: Timestamp) -> Result<(), BadEnvelope> {
        if envelope.kind() == Entry::KIND {
            self.take_entry(&SignedEntry::open(self.org, envelope.clone())?, now);
            return Ok(());
        }
        self.fresh.insert(envelope.digest());
        self.replica.take(envelope, now)
    }

    /// Takes an entry and what it carries. The caller concludes when all is there.
    pub fn take_entry(&mut self, signed: &SignedEntry, now: Timestamp) {
        self.fresh.extend(carried(&signed.entry.action).map(Envelope::digest));
        self.replica.take_entry(signed, now);
    }

    /// From one's own disk, which has the first sights, too. The caller concludes when all is there.
    pub fn remember(&mut self, envelope: &Envelope) -> Result<(), BadEnvelope> {
        self.fresh.insert(envelope.digest());
        self.replica.remember(envelope)
    }

    /// The same for an entry and what it carries.
    pub fn remember_entry(&mut self, signed: &SignedEntry) {
        self.fresh.extend(carried(&signed.entry.action).map(Envelope::digest));
        self.replica.remember_entry(signed);
    }

    /// The map with this root, which whoever read it has checked. Others are forgotten.
    pub fn take_map(&mut self, root: Digest, leaves: Leaves, classes: Vec<ClassLeaf>) {
        self.replica.maps = BTreeMap::from([(root, leaves)]);
        self.replica.classes = BTreeMap::from([(root, classes)]);
    }

    /// Is this very entry here?
    pub fn has_entry(&self, voice: &PublicKey, digest: Digest) -> bool {
        self.replica.chains.get(voice).is_some_and(|entries| entries.contains_key(&digest))
    }

    /// Does another entry stand here at this place, and not this one?
    pub fn has_other(&self, voice: &PublicKey, place: Recorded) -> bool {
        let entries = self.replica.chains.get(voice);
        entries.is_some_and(|entries| {
            !entries.contains_key(&place.digest) && entries.values().any(|written| written.seq == place.seq)
        })
    }

    /// Is it here, with every signature that this copy has?
    pub fn has_object(&self, envelope: &Envelope) -> bool {
        let digest = envelope.digest();
        if let Some(head) = self.replica.heads.held(&digest) {
            return head.has_signatures_of(envelope);
        }
        let step = self.replica.steps.get(&digest).map(|step| &step.envelope);
        step.or_else(|| self.replica.objects.get(&digest)).is_some_and(|known| known.has_signatures_of(envelope))
    }

    /// The head that an entry written now goes by.
    pub fn under(&self) -> Under {
        let none = Under { version: 0, digest: Digest([0; 32]) };
        self.head().map_or(none, |record| Under { version: record.head.version, digest: record.digest })
    }

    /// An entry of this gateway's own that carries what was taken already.
    pub fn put_own(&mut self, signed: &SignedEntry) {
        let (voice, written) = (signed.entry.voice, Written::read(self.org, signed));
        if self.goes_on(&voice, self.frontier.place_of(&voice)) {
            return self.append(written);
        }
        self.replica.take_written(written);
        self.frontier.0.insert(voice, signed.place());
    }

    /// When a gateway's chain was last begun anew, if it was.
    pub fn reopened_at(&self, gateway: &NodeName) -> Option<Timestamp> {
        let reopened =
            |head: &KnownHead<'_>| matches!(head.cause(), Cause::GatewayReopen { gateway: of } if of == gateway);
        self.heads().filter(reopened).map(KnownHead::issued_at).max()
    }

    /// Takes an entry that this gateway has just written at the end of its chain. What would not count is not taken, and
    /// not to be written down: nobody else needs to judge it.
    pub fn take_own(
        &mut self,
        signed: &SignedEntry,
        granted: Option<&Granted>,
        now: Timestamp,
    ) -> Result<Effect, NotTaken> {
        let (voice, entry) = (signed.entry.voice, &signed.entry);
        let end = self.frontier.place_of(&voice);
        let next = end.map_or(Some(1), |end| end.seq.checked_add(1));
        if entry.previous != end.map(|end| end.digest) || Some(entry.seq) != next {
            return Err(NotTaken::OutOfTurn);
        }
        let granted = granted.and_then(|granted| granted.written(signed));
        match &entry.action {
            Action::NodeAdmit { .. } => {
                if !self.goes_on(&voice, end) {
                    let forked = self.judged.fold.forks.contains_key(&voice);
                    let why = if forked { NotMember::Forked } else { NotMember::NotLinked };
                    return Err(Why::from(why).into());
                }
                let written = granted.unwrap_or_else(|| Written::read(self.org, signed));
                if self.is_plain(&written, &entry.action) {
                    self.admit(written)
                } else {
                    self.admit_aside(written, &entry.action, now)
                }
            }
            Action::NodeJoin { node_key, .. } if self.goes_on(&voice, end) => {
                self.append(Written::doing(signed, Act::Join(*node_key)));
                self.judged.fold.joined.insert(*node_key);
                self.seat_again(*node_key);
                Ok(Effect::Narrow)
            }
            // Its connection is not cut: it hears that it was heard.
            Action::NodeLeave { .. } => {
                self.take_entry(signed, now);
                self.conclude(now);
                Ok(Effect::Narrow)
            }
            // Whatever becomes of its chain, operators must be able to hand things in.
            Action::NodeJoin { .. } | Action::Take { .. } => {
                self.take_entry(signed, now);
                self.conclude(now);
                Ok(Effect::Wide)
            }
        }
    }

    /// Does the chain end there for everybody: linked to the record, unforked, and nothing known of it beyond?
    fn goes_on(&self, voice: &PublicKey, end: Option<Recorded>) -> bool {
        let record = self.judged.ground.head().and_then(|head| head.record.get(voice).copied());
        if self.replica.chains.contains_key(voice) {
            end.is_some() && self.judged.fold.ends.get(voice).copied() == end
        } else {
            record.is_none() && end.is_none()
        }
    }

    /// At the end of a chain that goes on there.
    fn append(&mut self, written: Written) {
        let (voice, place) = (written.voice, written.place());
        if place.seq == 1 {
            self.judged.fold.whole.insert(voice);
        }
        self.judged.fold.ends.insert(voice, place);
        self.frontier.0.insert(voice, place);
        self.replica.take_written(written);
    }

    /// Does it concern nobody but a new machine, and carry nothing that is new here?
    fn is_plain(&self, written: &Written, action: &Action) -> bool {
        let known = |carried: &Envelope| self.replica.objects.get(&carried.digest()) == Some(carried);
        if !carried(action).all(known) {
            return false;
        }
        let claim = written.checked().map(|evidence| &evidence.claim);
        claim.is_some_and(|claim| {
            let key = claim.node_key.digest();
            let known = self.members.contains_key(&key) || self.judged.fold.listed.contains_key(&key);
            claim.replaces.is_none() && !known && self.members.keys_of(&claim.name).next().is_none()
        })
    }

    /// A new machine under a new name: nothing else changes by it.
    fn admit(&mut self, written: Written) -> Result<Effect, NotTaken> {
        let (Some(evidence), Some(gateway)) = (written.checked(), self.judged.voices.get(&written.voice)) else {
            return Err(Why::from(NotMember::NoMandate).into());
        };
        let (name, key, gateway) = (evidence.claim.name.clone(), evidence.key(), gateway.clone());
        let record = admission(&written, evidence, &gateway);
        let ground = &self.judged.ground;
        let none = Leaves::new();
        let leaves = match ground.head().and_then(|head| head.members) {
            Some(_) => self.leaves().ok_or(Why::NoMap)?,
            None => &none,
        };
        let member = considered(ground, leaves, &Here(self), evidence)?;
        if let Some((invite, _)) = &evidence.invite {
            let invite = invite.digest();
            let keys = self.judged.fold.spent.entry((written.voice, invite)).or_default();
            let before = keys.len() as u64;
            keys.insert(key, before);
            self.invites.spend(invite, written.voice, key);
        }
        self.judged.fold.members.insert(name, Admitted { key, admission: written.digest, member });
        let record = self.member_of(record, Vec::new());
        self.members.insert(key, record);
        self.append(written);
        Ok(Effect::Narrow)
    }

    /// One that concerns others, too: all is judged again.
    fn admit_aside(&mut self, written: Written, action: &Action, now: Timestamp) -> Result<Effect, NotTaken> {
        let (before, digest) = (self.clone(), written.digest);
        let handed = written.checked().is_some_and(|evidence| evidence.claim.replaces.is_some());
        self.fresh.extend(carried(action).map(Envelope::digest));
        self.replica.take_written(written);
        self.replica.take_carried(action, now);
        self.conclude(now);
        match self.judged.fold.waiting.get(&digest).map(|waiting| waiting.why.clone()) {
            // A name that its key hands on changes hands with the next head.
            Some(_) if handed && self.judged.fold.handed.values().any(|heir| heir.admission == digest) => {
                Ok(Effect::Wide)
            }
            Some(why) => {
                *self = before;
                Err(why.into())
            }
            None => Ok(Effect::Wide),
        }
    }

    fn seat_again(&mut self, key: Digest) {
        let Some(member) = self.members.get(&key).cloned() else { return };
        let again = self.member_of(member.admission, member.others);
        self.members.insert(key, again);
    }
}

/// What is known here of an entry at the end of its chain.
struct Here<'a>(&'a State);

impl Facts for Here<'_> {
    fn name_of(&self, key: Digest) -> Fact<Option<NodeName>> {
        Fact::Known(self.0.judged.fold.listed.get(&key).cloned())
    }

    fn has_left(&self, key: Digest) -> Fact<bool> {
        Fact::Known(self.0.judged.fold.left.contains(&key))
    }

    /// It is written only where its chain goes on.
    fn link(&self, _: PublicKey, _: Digest) -> Fact<Link> {
        Fact::Known(Link::Linked)
    }

    fn spent_before(&self, voice: PublicKey, invite: Digest, key: Digest) -> Fact<u64> {
        if !self.0.judged.fold.whole.contains(&voice) && self.0.replica.chains.contains_key(&voice) {
            return Fact::Unknown;
        }
        Fact::Known(before(&self.0.judged.fold.spent, voice, invite, key))
    }

    fn is_denied(&self, claim: Digest) -> Fact<bool> {
        Fact::Known(self.0.judged.denied.contains(&claim))
    }
}
