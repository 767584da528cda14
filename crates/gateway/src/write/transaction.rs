//! A transaction: what a job of the writer may touch: the state as it will be after the commit, the ledger, the gateway's voice.

pub(crate) mod merge;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ground::random;
use identity::causes::describe;
use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::{Correlation, Digest, InviteId};
use identity::key::Sign;
use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::error::LedgerError;
use ledger::store::{Alarm, Ledger};
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::ledger::frontier::Tip;
use org::refusal::{Fault, Objection, Refusal};
use org::state::State;
use org::state::grant::Granted;
use org::state::take::Effect;

use crate::fault::{self, OrFault as _};
use crate::limit::halt::Halt;
use crate::write::published::{Incomplete, Published, READ_AHEAD, Staged};
use crate::write::tips::{OwnVoice, Tips};

/// What a job may touch. Refuse first, change last: a job that changed something must not refuse any more.
pub struct Transaction<'a> {
    pub state: &'a mut State,
    pub ledger: &'a Ledger,
    pub(crate) voice: Arc<OwnVoice>,
    tips: &'a Tips,
    pub(crate) halt: &'a Halt,
    closing: &'a Closing,
    staged: &'a mut Staged,
    pub(crate) batch: Batch,
}

/// Why nothing of a batch was written: the part that failed, and the whole story for the log.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub fault: Fault,
    pub why: String,
}

impl Broken {
    pub(crate) fn new(part: Fault, why: &(dyn std::error::Error + 'static)) -> Self {
        Self { fault: fault::precise(part, why), why: describe(why) }
    }
}

impl From<LedgerError> for Broken {
    fn from(why: LedgerError) -> Self {
        Self::new(Fault::Ledger, &why)
    }
}

impl From<Refusal> for Broken {
    fn from(why: Refusal) -> Self {
        let fault = if let Refusal::Failed { why } = why { why } else { Fault::Program };
        Self { fault, why: why.to_string() }
    }
}

/// What the jobs of one batch have done so far.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The disk failed: nothing of it counts.
    pub broken: Option<Broken>,
    /// Somebody is to be told how far the ledger is.
    pub wants_tip: bool,
    /// Operators changed something: the whole gateway judges by it from the commit on.
    pub wide: bool,
    /// Entries of this gateway's own that the state took, in their order.
    pub taken: Vec<Taken>,
    /// What a head of this batch publishes to nodes.
    pub published: Option<Published>,
    /// Something was noted that other gateways want to know.
    pub observed: bool,
    /// Operators had it begin another chain: from the commit on this is its voice.
    pub gone_over: Option<Arc<OwnVoice>>,
}

/// An entry, and what spares its own author to check it again.
#[derive(Debug)]
pub(crate) struct Taken {
    pub signed: SignedEntry,
    pub granted: Option<Granted>,
}

impl Taken {
    /// True if the state took it.
    pub(crate) fn apply(&self, state: &mut State) -> bool {
        state.take_own(&self.signed, self.granted.as_ref(), self.signed.entry.at).is_ok()
    }
}

/// Invites whose revocation is on its way.
#[derive(Debug, Default)]
pub struct Closing(Mutex<BTreeMap<InviteId, Instant>>);

impl Closing {
    const TIME: Duration = Duration::from_mins(1);

    fn close(&self, invite: InviteId) {
        let mut closing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closing.retain(|_, since| since.elapsed() < Self::TIME);
        closing.insert(invite, Instant::now());
    }

    fn is_closing(&self, invite: InviteId) -> bool {
        let closing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        closing.get(&invite).is_some_and(|since| since.elapsed() < Self::TIME)
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        staged: &'a mut Staged,
        ledger: &'a Ledger,
        tips: &'a Tips,
        halt: &'a Halt,
        closing: &'a Closing,
    ) -> Self {
        Self { state, ledger, voice: tips.voice(), tips, halt, closing, staged, batch: Batch::default() }
    }

    /// Reads a map that was handed in, if it is whole, so that the head that names it need not wait for that.
    pub fn read_ahead(&mut self, root: Digest) {
        self.staged.keep(Published::read_within(self.ledger, root, READ_AHEAD).ok());
    }

    /// The same of one that was read already.
    pub fn have_ready(&mut self, published: Published) {
        self.staged.keep(Some(published));
    }

    /// Takes what operators signed: all or none. What is here already is not written again.
    pub fn take(&mut self, objects: Vec<Envelope>, when: Stamp) -> Result<(), Refusal> {
        let handed: Vec<Envelope> = objects.into_iter().filter(|object| !self.state.has_object(object)).collect();
        if handed.is_empty() {
            return Ok(());
        }
        let mut trial = self.state.clone();
        let mut objects = Vec::with_capacity(handed.len());
        for object in handed {
            // One copy of it was enough.
            if trial.has_object(&object) {
                continue;
            }
            if !objects.is_empty() {
                // A change of signers may name an older head.
                self.keep(|tx| tx.ledger.bring_back_heads(&mut trial, when.at))?;
                trial.conclude(when.at);
            }
            if object.kind() == Head::KIND {
                trial.check_follows(&object, when.at).map_err(|why| refuses(&why))?;
            }
            trial.take(&object, when.at).map_err(|why| refuses(&why))?;
            objects.push(object);
        }
        self.keep(|tx| tx.ledger.conclude_with(&mut trial, when.at, |root| Some(tx.staged.look(root)?.leaves())))?;
        for object in &objects {
            trial.check_taken(object).map_err(|why| refuses(&why))?;
        }
        self.check_cuts(&objects)?;
        let published = self.check_published(&objects)?;
        self.batch.wide = true;
        self.batch.published = published.or(self.batch.published.take());
        *self.state = trial;
        for object in objects {
            self.write_down(object, when)?;
        }
        self.keep(|tx| tx.ledger.keep_sights(&tx.state.replica.sights))
    }

    /// Takes a head that somebody showed and the signers in force have signed; the map that it names may come later. It
    /// stands in a chain already, which may be this gateway's own: until that is here, nothing more is written there.
    pub fn take_shown(&mut self, head: &Envelope, now: Timestamp) -> Result<(), Refusal> {
        let mut state = self.state.clone();
        state.take(head, now).map_err(|why| Refusal::Malformed { why: why.to_string() })?;
        self.keep(|tx| tx.ledger.conclude(&mut state, now))?;
        *self.state = state;
        self.batch.wide = true;
        self.keep(|tx| tx.ledger.add_object(head))?;
        self.keep(|tx| tx.ledger.keep_sights(&tx.state.replica.sights))
    }

    /// In this gateway's own chain; if it may write none, beside it.
    fn write_down(&mut self, object: Envelope, when: Stamp) -> Result<(), Refusal> {
        if self.halt.check().is_err() || !self.state.judged.voices.contains_key(&self.voice.key.public()) {
            return self.keep(|tx| tx.ledger.add_object(&object));
        }
        let signed = self.sign(Action::Take { envelope: object }, when)?;
        self.state.put_own(&signed);
        self.write_own(&signed)
    }

    /// Other gateways want to know.
    fn write_own(&mut self, signed: &SignedEntry) -> Result<(), Refusal> {
        self.batch.observed = true;
        self.keep(|tx| tx.ledger.add_entry(signed))
    }

    /// A head that names a map of members is taken only with every leaf and manifest: nodes are told all or nothing.
    fn check_published(&mut self, objects: &[Envelope]) -> Result<Option<Published>, Refusal> {
        let (org, known) = (self.state.org, self.state.head().and_then(|record| record.head.members));
        let mut published = None;
        for head in objects.iter().filter_map(|object| object.peek::<Head>(Some(org)).ok()) {
            if let Some(root) = head.members.filter(|root| Some(*root) != known) {
                published = match self.staged.take(root).map_or_else(|| Published::read(self.ledger, root), Ok) {
                    Ok(published) => Some(published),
                    Err(Incomplete::Ledger(why)) => return self.keep(|_| Err(why)),
                    Err(why) => return Err(refuses(&why)),
                };
            }
        }
        Ok(published)
    }

    /// An invite is revoked where no machine that it let in is left out. If machines joined meanwhile, the operator looks
    /// again; until then nobody else comes in, or whoever holds the code could put it off for ever.
    fn check_cuts(&self, objects: &[Envelope]) -> Result<(), Refusal> {
        let (org, voice) = (Some(self.state.org), self.voice.key.public());
        for head in objects.iter().filter_map(|object| object.peek::<Head>(org).ok()) {
            let settled = head.record.get(&voice).map_or(0, |record| record.seq);
            for invite in head.revocations.invites.beyond(&self.state.revoked().invites) {
                let spent = self.state.invites_of(*invite).flat_map(|record| record.spent.keys());
                let mut members = spent.filter_map(|key| self.state.members.get(key));
                if members.any(|member| member.admission.voice == voice && member.admission.seq > settled) {
                    self.closing.close(*invite);
                    return Err(Refusal::LedgerRefuses { why: Objection::JoinedMeanwhile });
                }
            }
        }
        Ok(())
    }

    /// Is this invite about to be revoked?
    pub fn is_closing(&self, invite: InviteId) -> bool {
        self.closing.is_closing(invite)
    }

    /// Writes an entry of this gateway's own about a machine.
    pub fn append_own(&mut self, action: Action, at: Timestamp, correlation: Correlation) -> Result<(), Refusal> {
        self.append_about(action, Stamp { at, correlation }, None).map(drop)
    }

    /// Writes the first entry of this gateway's chain: its machine is there.
    pub fn begin_chain(&mut self, node_key: Digest, name: NodeName, when: Stamp) -> Result<(), Refusal> {
        self.halt.check_mapless()?;
        self.append_checked(Action::NodeJoin { node_key, name }, when, None).map(drop)
    }

    /// Writes down whom this gateway has just admitted; the entry is the admission.
    pub fn append_granted(
        &mut self,
        granted: Granted,
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<Envelope, Refusal> {
        let action = granted.action().clone();
        self.append_about(action, Stamp { at, correlation }, Some(granted))
    }

    fn append_about(&mut self, action: Action, when: Stamp, granted: Option<Granted>) -> Result<Envelope, Refusal> {
        self.halt.check()?;
        self.append_checked(action, when, granted)
    }

    fn append_checked(&mut self, action: Action, when: Stamp, granted: Option<Granted>) -> Result<Envelope, Refusal> {
        let signed = self.sign(action, when)?;
        // What would not count is not written: nobody else needs to judge it.
        let taken = self.state.take_own(&signed, granted.as_ref(), when.at);
        let effect = taken.map_err(|why| refuses(&why))?;
        self.batch.wide |= effect == Effect::Wide;
        self.keep(|tx| tx.ledger.add_entry(&signed))?;
        let envelope = signed.envelope.clone();
        self.batch.taken.push(Taken { signed, granted });
        Ok(envelope)
    }

    /// The next entry of this gateway's chain.
    fn sign(&self, action: Action, when: Stamp) -> Result<SignedEntry, Refusal> {
        let key = &self.voice.key as &dyn Sign;
        let last = self.state.frontier.place_of(&key.public());
        let signed = SignedEntry::write(self.state.org, last, key, self.state.under(), when, action);
        signed.or_fault(Fault::Keys)
    }

    /// Is a word that this gateway once gave about its chain still so? One that is shown its own future, or another past
    /// than it has, was restored from an old copy: it stops issuing until it has what it lacks.
    pub fn confirms(&mut self, shown: &Tip) -> Result<bool, Refusal> {
        if self.state.has_entry(&shown.voice, shown.place.digest) {
            return Ok(true);
        }
        self.keep(|tx| tx.ledger.mark_behind(ground::clock::now(), shown.place))?;
        if self.halt.fall_behind() {
            tracing::error!(
                entry = shown.place.seq,
                "this gateway told others of an entry that its ledger does not have: it was restored from an old copy. \
                 It issues nothing until somebody hands over what it lacks; if nobody has it: freehold gateway reopen {}",
                self.voice.gateway
            );
        }
        Ok(false)
    }

    /// What it lacked may have come.
    pub(crate) fn look_back(&mut self) -> Result<(), Refusal> {
        let voice = self.voice.key.public();
        let lacked = self.keep(|tx| tx.ledger.behind())?;
        if lacked.is_some_and(|place| self.state.has_entry(&voice, place.digest)) {
            self.keep(|tx| tx.ledger.clear_behind())?;
            self.batch.wide = true;
            // A fork, or a map that is missing, still holds it back.
            if self.state.judged.fold.ends.contains_key(&voice) {
                let correlation = random::correlation().or_fault(Fault::Randomness)?;
                self.write_beside(Stamp { at: ground::clock::now(), correlation })?;
            }
        }
        Ok(())
    }

    /// The members' map of the head in force may have come after it.
    pub(crate) fn look_for_map(&mut self) -> Result<(), Refusal> {
        let named = self.state.head().is_some_and(|record| record.head.members.is_some());
        if !named || self.state.leaves().is_some() {
            return Ok(());
        }
        let mut state = self.state.clone();
        self.keep(|tx| tx.ledger.conclude(&mut state, ground::clock::now()))?;
        self.batch.wide |= state.leaves().is_some();
        *self.state = state;
        Ok(())
    }

    /// A recovery takes effect by time alone.
    pub(crate) fn turn(&mut self, now: Timestamp) -> Result<(), Refusal> {
        if !self.state.is_due(now) {
            return Ok(());
        }
        let mut state = self.state.clone();
        self.keep(|tx| tx.ledger.conclude(&mut state, now))?;
        *self.state = state;
        self.batch.wide = true;
        Ok(())
    }

    /// The head in force gives this gateway's mandate to its spare voice: in one commit it begins its chain anew, and
    /// nothing holds it back any more. Until the members' map is here it does not know itself, and waits.
    pub(crate) fn go_over(&mut self, when: Stamp) -> Result<(), Refusal> {
        let Some(next) = self.tips.next(self.state).filter(|next| next.public() != self.voice.public()) else {
            return Ok(());
        };
        let holder = self.state.holder(&next.gateway).map(|member| member.claim().node_key.digest());
        let Some(node_key) = holder.filter(|_| !self.state.is_frozen()) else { return Ok(()) };
        let begun = self.state.frontier.place_of(&next.public()).is_some();
        let next = Arc::new(next);
        self.voice = Arc::clone(&next);
        self.batch.wide = true;
        if begun {
            // This folder is an older copy, which was handed what it lacked.
            self.keep(|tx| tx.ledger.clear_behind())?;
        } else {
            self.keep(|tx| tx.ledger.clear_marks())?;
            let signed = self.sign(Action::NodeJoin { node_key, name: next.gateway.clone() }, when)?;
            let taken = self.state.take_own(&signed, None, when.at);
            taken.map_err(|why| refuses(&why))?;
            self.write_own(&signed)?;
        }
        tracing::warn!(voice = %next.public(), "operators closed this gateway's chain: it goes on in another voice");
        self.batch.gone_over = Some(next);
        self.write_beside(when)
    }

    /// What came in while nothing could be written into its chain is written there now, so that others get it.
    pub(crate) fn write_beside(&mut self, when: Stamp) -> Result<(), Refusal> {
        let objects = self.keep(|tx| tx.ledger.objects())?;
        if objects.is_empty() {
            return Ok(());
        }
        for object in objects {
            let signed = self.sign(Action::Take { envelope: object }, when)?;
            self.state.put_own(&signed);
            self.write_own(&signed)?;
        }
        self.batch.wide = true;
        self.keep(|tx| tx.ledger.forget_objects())
    }

    /// When this gateway began another chain, or was handed entries of its own: its log of issuances may be of an older
    /// copy.
    pub fn set_back_at(&mut self) -> Result<Option<Timestamp>, Refusal> {
        let handed = self.keep(|tx| tx.ledger.set_back_at())?;
        Ok(self.state.reopened_at(&self.voice.gateway).max(handed))
    }

    /// From now on this node key gets nothing.
    pub fn raise_alarm(&mut self, node_key: Digest, at: Timestamp, alarm: &Alarm) -> Result<(), Refusal> {
        self.halt.alarm(node_key);
        self.keep(|tx| tx.ledger.raise_alarm(node_key, at, alarm))
    }

    /// Does something with the disk; if it fails, the whole batch is undone.
    pub fn keep<T>(&mut self, act: impl FnOnce(&Self) -> Result<T, LedgerError>) -> Result<T, Refusal> {
        act(self).map_err(|why| {
            let broken = Broken::from(why);
            let fault = broken.fault;
            self.batch.broken = Some(broken);
            Refusal::Failed { why: fault }
        })
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transaction")
    }
}

/// Words of whoever judged it.
fn refuses(why: &impl std::error::Error) -> Refusal {
    Refusal::LedgerRefuses { why: Objection::of(why) }
}
