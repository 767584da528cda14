//! What a caller knows of an org for certain (rollback protection): its founding record, every step from signer set to
//! signer set that it saw, and the head that it follows. It only grows, and goes by the judges by which gateways go.

use std::collections::BTreeSet;

use identity::bundle::{Domain, Endpoint, Roots};
use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::{BadHead, Head, SignedHead};
use identity::id::{Digest, OrgId};
use identity::signers::{BrokenChain, Quorum, Recovery, SignerSet, SignersRef, Succession, Word};
use identity::time::Timestamp;
use org::founding::Founding;
use org::ledger::ground::{Ground, ground};
use org::ledger::heads::HeadRecord;
use org::ledger::heads::KnownHead;
use org::ledger::replica::Replica;
use org::ledger::signers::{Frozen, InForce, Signers, Stance};
use org::ledger::step::{Sets, Sights, SignerStep};
use org::suspend::suspended::mark;

pub mod freeze;
mod bad;
mod file;
mod bundles;
pub mod carried;

pub use bad::BadKnowledge;
pub use file::{KnownFile, Seen};

#[derive(Debug, Clone)]
pub struct Known {
    pub founding: Founding,
    /// The steps from set 1 to `signers`; where rivals signed one set together, to each of them, too.
    pub chain: Vec<Envelope>,
    /// The set that signed the head.
    pub signers: SignerSet,
    /// With whatever was taken away by heads that it does not know of.
    pub head: SignedHead,
    pub head_envelope: Envelope,
    /// Steps with their first sights, the head, and heads beside it that took away what it does not.
    replica: Replica,
}

/// More recoveries than this at once are not somebody who lost keys.
const MOST_WAITING: usize = 4;

/// Steps of each kind that lead elsewhere, and heads beside: whoever has signers' keys cannot fill a disk with them.
const MOST_BESIDE: usize = 16;

/// So much of heads beside, in bytes as they are written: a head that is kept with them can be read back.
const MOST_LEFT: usize = 4 << 20;

/// Nobody changed signers so often.
const MOST_TOLD: usize = 1_024;

impl Known {
    /// Takes a chain that was walked before, or that somebody vouches for who is believed.
    pub fn new(founding: Founding, chain: &[Envelope], head: &Envelope) -> Result<Self, BadKnowledge> {
        let last = chain.last().map(|last| SignerStep::read(founding.id, last)).transpose()?;
        let floor = last.map_or_else(|| founding.first_signers().as_ref(), |step| step.to.as_ref());
        Self::begin(founding, floor, chain, head, Timestamp::from_unix(0))
    }

    /// What a joiner takes from a gateway: the steps must lead to the floor of its code, whose maker vouches for all before
    /// it; a recovery beyond it is one for which nobody has waited.
    pub fn begin(
        founding: Founding,
        floor: SignersRef,
        chain: &[Envelope],
        head: &Envelope,
        now: Timestamp,
    ) -> Result<Self, BadKnowledge> {
        let mut replica = Replica::new(&founding, Some(floor));
        for step in chain {
            replica.see(step, now)?;
        }
        let reached = match replica.signers(now) {
            Signers::Frozen(_) => return Err(BadKnowledge::Frozen { steps: chain.to_vec() }),
            Signers::InForce(reached) => reached,
        };
        let first = founding.first_signers();
        if floor.version == first.version && floor.id != first.id {
            return Err(BrokenChain::Forked { version: floor.version }.into());
        }
        if reached.below_floor {
            broken(&founding.first_signers(), chain, &replica)?;
            let forked = replica.steps.values().any(|step| step.to.version == floor.version);
            let (version, reached) = (floor.version, reached.set.version);
            let early = BrokenChain::EndsTooEarly { reached, floor: version };
            return Err(if forked || reached >= version { BrokenChain::Forked { version } } else { early }.into());
        }
        if let Some((_, until)) = reached.pending.first() {
            return Err(BadKnowledge::RecoveryWaits { until: *until, steps: chain.to_vec() });
        }
        broken(&founding.first_signers(), chain, &replica)?;
        SignedHead::open(&reached.set, head)?;
        replica.remember(head)?;
        Self::by(founding, replica, head.digest())
    }

    /// The head with this digest is followed.
    fn by(founding: Founding, mut replica: Replica, digest: Digest) -> Result<Self, BadKnowledge> {
        let other = |record: &Head| {
            let (found, known) = (record.signers.version, replica.basis.first.version);
            BadHead::OtherSigners { found, known }
        };
        let unread = || BadHead::from(BadEnvelope::OtherKind { expected: Head::KIND, found: String::new() });
        let record = replica.heads.get(&digest).cloned().ok_or_else(unread)?;
        let path = replica.path_to(record.head.signers).ok_or_else(|| other(&record.head))?;
        let set = path.last().map_or_else(|| replica.basis.first.clone(), |step| step.to.clone());
        if !KnownHead::Whole(&record).is_of(&set) {
            // Says why.
            SignedHead::open(&set, &record.envelope)?;
        }
        let chain = path.iter().map(|step| step.envelope.clone()).collect();
        let mut ground = Self::ground(&replica, &set, &record);
        let kept = few(&ground);
        if replica.heads.len() > kept.len() + 1 {
            replica.heads.retain(|head| head.digest() == digest || kept.contains(&head.digest()));
            ground = Self::ground(&replica, &set, &record);
        }
        let head = Head { revocations: ground.revoked.clone(), trust: ground.trust(), ..record.head };
        let (head, head_envelope) = (SignedHead { head, digest }, record.envelope);
        Ok(Self { founding, chain, signers: set, head, head_envelope, replica })
    }

    fn ground(replica: &Replica, set: &SignerSet, head: &HeadRecord) -> Ground {
        ground(replica.org, &InForce::alone(set.clone(), Some(head.digest)), &replica.heads, &replica.sets())
    }

    pub const fn org(&self) -> OrgId {
        self.founding.id
    }

    /// By how many seconds the clock of this machine, read as `now` has it, is ahead of one that never jumped: delays run by
    /// that one.
    #[must_use]
    pub fn ahead_by(mut self, seconds: i64) -> Self {
        self.replica.ahead = seconds;
        self
    }

    pub const fn ahead(&self) -> i64 {
        self.replica.ahead
    }

    /// The time to judge by: what enough operators signed is in the past, whatever a clock says. Only a head moves this
    /// floor, also back.
    pub fn now(&self, clock: Timestamp) -> Timestamp {
        clock.max(self.head.head.issued_at)
    }

    /// The endpoint roots of whoever keeps none: the founders', as long as the head trusts version 1. After that none, and
    /// which are trusted now is read where it is signed (`trust::refresh`).
    pub fn first_endpoint_roots(&self) -> Roots<Endpoint> {
        let mut lines = self.head.head.trust.iter().filter(|line| line.domain == Domain::Endpoint).peekable();
        let trusted = lines.peek().is_none() || lines.any(|line| line.version == 1 && line.state.is_trusted());
        let founders = self.founding.record.endpoint_root.0.clone();
        Roots::from_certificates(trusted.then(|| founders.into()).into_iter().collect())
    }

    /// Every signer set from the first to the one in force, with rivals that signed one together.
    pub fn signer_sets(&self) -> Vec<SignerSet> {
        let path = self.replica.path_to(self.signers.as_ref()).unwrap_or_default();
        std::iter::once(self.founding.first_signers()).chain(path.into_iter().map(|step| step.to.clone())).collect()
    }

    /// The steps that were followed here, as a ledger that begins here keeps them: whoever settled them has waited, and
    /// beyond that a second successor is as late there as here.
    pub fn followed(&self) -> Sights {
        let floor = self.replica.basis.floor.map_or(1, |floor| floor.version);
        let since = |step: &SignerStep| match self.replica.sights.get(&step.digest) {
            Some(since) if step.to.version > floor => *since,
            Some(_) | None => Timestamp::from_unix(0),
        };
        let path = self.replica.path_to(self.signers.as_ref()).unwrap_or_default();
        path.into_iter().map(|step| (step.digest, since(step))).collect()
    }

    /// When each step was first seen here, whether it is followed or not.
    pub const fn sights(&self) -> &Sights {
        &self.replica.sights
    }

    /// Is there something to be kept that the other does not have?
    pub fn says_more_than(&self, other: &Self) -> bool {
        self.head.digest != other.head.digest || self.mark() != other.mark() || self.sights() != other.sights()
    }

    /// Is this the head that is followed, or does that one name it?
    pub fn names(&self, head: Digest) -> bool {
        let own = &self.head.head;
        self.head.digest == head || own.previous.contains(&head) || own.recent.contains(&head)
    }

    /// Heads beside the one that is followed, which took away what it does not.
    pub fn beside(&self) -> impl Iterator<Item = &HeadRecord> {
        self.replica.heads.values().filter(|record| record.digest != self.head.digest)
    }

    /// The same for everybody who keeps the same ones; nothing if there is none.
    pub fn mark(&self) -> Option<Digest> {
        mark(self.beside().map(|record| record.digest))
    }

    /// Heads beside the one that is followed, by the signers in force: what they take away counts from now on, and nothing
    /// else of them does. Nothing if they take away nothing more. A higher one is followed whole, or not at all.
    #[must_use]
    pub fn hear(&self, beside: &[Envelope], now: Timestamp) -> Option<Self> {
        match self.replica.signers(now) {
            Signers::InForce(in_force) if in_force.set == self.signers => self.with_beside(beside),
            Signers::InForce(_) | Signers::Frozen(_) => None,
        }
    }

    fn with_beside(&self, beside: &[Envelope]) -> Option<Self> {
        let mut replica = self.replica.clone();
        for head in beside.iter().filter(|it| it.kind() == Head::KIND).take(MOST_BESIDE) {
            // What cannot be read is nothing.
            let _unread = replica.remember(head);
        }
        let own = replica.heads.held(&self.head.digest).map(KnownHead::rank)?;
        replica.heads.retain(|head| head.rank() <= own);
        let newer = Self::by(self.founding.clone(), replica, self.head.digest).ok()?;
        let keeps = newer.head.head.revocations.includes(&self.head.head.revocations);
        (keeps && newer.says_more_than(self)).then_some(newer)
    }

    /// Goes forward: steps to later signers, of which some may be known, then a higher head, whether it knows of the one
    /// here or not. What is not higher is refused and changes nothing.
    pub fn advance(&self, steps: &[Envelope], head: Option<&Envelope>, now: Timestamp) -> Result<Self, BadKnowledge> {
        let mut replica = self.replica.clone();
        if steps.len() > MOST_TOLD {
            return Err(BrokenChain::TooMany.into());
        }
        for step in steps.iter().filter(|step| !self.has_step(step)) {
            replica.see(step, now)?;
        }
        replica.keep_few_beside(&self.chain_digests(), now, MOST_BESIDE);
        let Some((head, digest)) = head.map(|head| (head, head.digest())).filter(|(_, it)| *it != self.head.digest)
        else {
            return Ok(Self { replica, ..self.clone() });
        };
        replica.remember(head).map_err(BadHead::from)?;
        let in_force = match replica.signers(now) {
            Signers::Frozen(_) => return Err(BadKnowledge::Frozen { steps: steps.to_vec() }),
            Signers::InForce(in_force) => in_force,
        };
        let ground = ground(self.org(), &in_force, &replica.heads, &replica.sets());
        let top = ground.head.as_ref().filter(|top| top.digest == digest);
        if in_force.set.version > self.signers.version
            && top.is_some_and(|top| top.head.place() < self.head.head.place())
        {
            // It stands in until the set in force has signed one; a rival's that was followed here is left then.
            replica.heads = self.replica.heads.clone();
            return Ok(Self { replica, ..self.clone() });
        }
        match top.filter(|top| top.head.place() >= self.head.head.place()) {
            Some(top) => {
                let next = Self::by(self.founding.clone(), replica, top.digest)?;
                // Whoever followed one that leads to no root any more would hear of no other. It may go round the one here.
                let (version, lines) = (next.head.head.version, &next.head.head.trust);
                let knows = next.head.head.previous.contains(&self.head.digest);
                let may = if knows { identity::trust::follows } else { identity::trust::leads_on };
                may(&self.head.head.trust, lines).map_err(|why| BadHead::ForgetsTrust { version, why })?;
                Ok(next)
            }
            None => Err(self.why_not(head, &in_force, &replica, steps)),
        }
    }

    /// What somebody tells at once: steps and a higher head, and heads beside the one that is then followed.
    pub fn told(
        &self,
        steps: &[Envelope],
        head: Option<&Envelope>,
        beside: &[Envelope],
        now: Timestamp,
    ) -> Result<Self, BadKnowledge> {
        let newer = self.advance(steps, head, now)?;
        if beside.is_empty() {
            return Ok(newer);
        }
        Ok(newer.hear(beside, now).unwrap_or(newer))
    }

    fn has_step(&self, step: &Envelope) -> bool {
        self.replica.steps.get(&step.digest()).is_some_and(|known| known.envelope == *step)
    }

    /// The steps to the signers of the head that is followed.
    fn chain_digests(&self) -> BTreeSet<Digest> {
        self.chain.iter().map(Envelope::digest).collect()
    }

    /// Why a head that is offered is not followed.
    fn why_not(&self, head: &Envelope, at: &InForce, replica: &Replica, steps: &[Envelope]) -> BadKnowledge {
        let body = match head.peek::<Head>(Some(self.org())) {
            Ok(body) => body,
            Err(why) => return BadHead::from(why).into(),
        };
        let parted = |step: &&SignerStep| {
            let elsewhere = step.settles && !at.path.contains(&step.digest);
            let waits = at.pending.iter().any(|(waits, _)| *waits == step.digest);
            at.late.contains(&step.digest) || (elsewhere && !waits)
        };
        if steps.iter().filter_map(|step| replica.steps.get(&step.digest())).any(|step| parted(&step)) {
            return BadKnowledge::Parted;
        }
        if body.signers.version > at.set.version {
            if let Some((_, until)) = at.pending.iter().max_by_key(|(_, until)| *until) {
                return BadKnowledge::RecoveryWaits { until: *until, steps: steps.to_vec() };
            }
            if let Err(why) = broken(&self.signers, steps, replica) {
                return why.into();
            }
        }
        let own = &self.head.head;
        if body.signers.version < own.signers.version {
            return BadHead::OtherSigners { found: body.signers.version, known: own.signers.version }.into();
        }
        let (found, known) = (body.place(), own.place());
        if found < known {
            return BadHead::Regression { found: body.version, known: self.head.head.version }.into();
        }
        if found == known && body.signers == self.head.head.signers {
            let signed = SignedHead::open(&self.signers, head).map(|_| BadHead::Forked { version: body.version });
            return signed.unwrap_or_else(|why| why).into();
        }
        match SignedHead::open(&at.set, head) {
            Err(why) => why.into(),
            Ok(_) => BadHead::OtherSigners { found: body.signers.version, known: at.set.version }.into(),
        }
    }

    /// Remembers a step from its first sight on. Nothing if it says nothing new.
    #[must_use]
    pub fn notice(&self, step: &Envelope, now: Timestamp) -> Option<Self> {
        self.see(std::slice::from_ref(step), now)
    }

    /// Remembers the steps that kept this machine from following.
    #[must_use]
    pub fn heed(&self, why: &BadKnowledge, now: Timestamp) -> Option<Self> {
        let (BadKnowledge::RecoveryWaits { steps, .. } | BadKnowledge::Frozen { steps }) = why else {
            return None;
        };
        self.see(steps, now)
    }

    fn see(&self, steps: &[Envelope], now: Timestamp) -> Option<Self> {
        // A clock that was never set counts from the last moment that the operators signed.
        let since = self.now(now);
        let mut replica = self.replica.clone();
        for step in steps.iter().take(MOST_TOLD) {
            replica.see(step, since).ok()?;
        }
        replica.keep_few_beside(&self.chain_digests(), since, MOST_BESIDE);
        let newer = Self { replica, ..self.clone() };
        let is_new = newer.replica.sights != self.replica.sights;
        let room = newer.waiting().count() <= MOST_WAITING.max(self.waiting().count());
        (is_new && room).then_some(newer)
    }

    /// With what another copy of this knowledge has seen: whoever reads two gateways forgets neither's.
    #[must_use]
    pub fn with_sightings_of(mut self, other: &Self) -> Self {
        for theirs in in_order(&other.replica) {
            let Some(since) = other.replica.sights.get(&theirs.digest) else { continue };
            if let Some(own) = self.replica.sights.get_mut(&theirs.digest) {
                *own = (*own).min(*since);
            } else if let Some(newer) = self.see(std::slice::from_ref(&theirs.envelope), self.replica.shown(*since)) {
                self = newer;
            }
        }
        let beside: Vec<Envelope> = other.beside().map(|record| record.envelope.clone()).collect();
        self.with_beside(&beside).unwrap_or(self)
    }

    /// Recoveries of the set in force, or of one that follows it, which are not followed.
    fn waiting(&self) -> impl Iterator<Item = (&SignerStep, Timestamp)> {
        let steps = self.replica.steps.values();
        let waits = steps.filter(|step| {
            step.word == Word::Recovery
                && step.to.version > self.signers.version
                && !self.chain.iter().any(|taken| taken.digest() == step.digest)
        });
        waits.filter_map(|step| {
            let since = self.replica.sights.get(&step.digest)?;
            Some((step, self.replica.shown(*since + self.founding.record.recovery_delay)))
        })
    }

    /// The recoveries that threaten the set in force or one that follows it, and when each takes effect here.
    pub fn alarms(&self) -> Vec<(SignerSet, Timestamp)> {
        self.waiting().map(|(step, due)| (step.to.clone(), due)).collect()
    }

    /// The same, as they were signed.
    pub fn recoveries(&self) -> impl Iterator<Item = Seen> {
        let seen = |step: &SignerStep| Some((step.envelope.clone(), *self.replica.sights.get(&step.digest)?));
        self.waiting().filter_map(move |(step, _)| seen(step).map(|(step, since)| Seen { step, since }))
    }

    /// Nothing new is followed here while two sets claim one place.
    pub fn frozen(&self, now: Timestamp) -> Option<Frozen> {
        match self.replica.signers(now) {
            Signers::Frozen(frozen) => Some(frozen),
            Signers::InForce(_) => None,
        }
    }

    /// Of suspensions that somebody hands over, those that may count here: none while two sets claim one place.
    pub fn heeded<'a>(&self, suspensions: &'a [Envelope], now: Timestamp) -> &'a [Envelope] {
        if self.frozen(now).is_some() { &[] } else { suspensions }
    }

    /// The sets that claim one place, if two do.
    pub fn rivals(&self, now: Timestamp) -> Vec<SignerSet> {
        self.frozen(now).map(|frozen| frozen.rivals).unwrap_or_default()
    }

    /// Every set to which signatures lead.
    pub fn sets(&self) -> Sets {
        self.replica.sets()
    }

    /// One of them, whatever became of it.
    pub fn set(&self, id: Digest) -> Option<SignerSet> {
        self.replica.sets().remove(&id)
    }

    /// A step that was seen here, whatever became of it.
    pub fn step(&self, digest: Digest) -> Option<&SignerStep> {
        self.replica.steps.get(&digest)
    }

    /// Whose thresholds would have a further step taken here; nothing if it leads on from no set that is in force or claims to be.
    pub fn asks(&self, step: &SignerStep, now: Timestamp) -> Option<Vec<Quorum>> {
        self.replica.asks(step, now).filter(|_| step.to.version > self.signers.version)
    }

    pub fn stance_of(&self, step: Digest, now: Timestamp) -> Stance {
        self.replica.signers(now).stance_of(step)
    }
}

/// The heads beside that are kept, as far as there is room.
fn few(ground: &Ground) -> BTreeSet<Digest> {
    let mut room = MOST_LEFT;
    let mut fits = |record: &&HeadRecord| {
        let left = room.checked_sub(serde_json::to_vec(&record.envelope).map_or(usize::MAX, |text| text.len()));
        room = left.unwrap_or(room);
        left.is_some()
    };
    ground.takers().filter(|record| fits(record)).map(|record| record.digest).collect()
}

/// Each after those that it may follow: whose signatures count is known then.
fn in_order(replica: &Replica) -> Vec<&SignerStep> {
    let mut steps: Vec<&SignerStep> = replica.steps.values().collect();
    steps.sort_by_key(|step| step.to.version);
    steps
}

/// Where a chain that was offered does not hold, and why: a step that is not kept here leads to no set that is one.
fn broken(from: &SignerSet, chain: &[Envelope], replica: &Replica) -> Result<(), BrokenChain> {
    let (sets, mut at) = (replica.sets(), from);
    for envelope in chain {
        if let Some(known) = replica.steps.get(&envelope.digest()) {
            at = sets.get(&known.to.id).unwrap_or(at);
            continue;
        }
        let not_signed = |by: u64, why| BrokenChain::NotSigned { version: by.saturating_add(1), by, why };
        let step = SignerStep::read(at.org, envelope).map_err(|why| not_signed(at.version, why))?;
        if let Some(by) = sets.get(&step.previous) {
            let signed = match step.word {
                Word::Signers => by.open::<Succession>(envelope).map(drop),
                Word::Recovery => replica.basis.recovery.open::<Recovery>(at.org, envelope).map(drop),
            };
            signed.map_err(|why| not_signed(by.version, why))?;
        }
        return Err(BrokenChain::NotASuccessor { known: at.version, found: step.to.version });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
