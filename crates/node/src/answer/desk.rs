//! What a job of the writer may touch: the state as it will be after the commit, the ledger, the gateway's voice.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use identity::causes::describe;
use identity::envelope::Envelope;
use identity::head::{Cut, Head};
use identity::id::{Correlation, Digest, InviteId, OrgId};
use identity::key::Sign;
use identity::time::Timestamp;
use ledger::error::LedgerError;
use ledger::store::{Alarm, Ledger};
use org::derived::{self, Rows};
use org::entry::{Action, Cause, SignedEntry};
use org::frontier::Tip;
use org::grant::Granted;
use org::recover::MAX_OPEN;
use org::refusal::Refusal;
use org::state::{State, Unfit, Void};

use crate::answer::halt::Halt;
use crate::answer::held::Wait;
use crate::answer::published::{Incomplete, Published, Staged};
use crate::answer::tips::OwnVoice;

/// What a job may touch. Refuse first, change last: a job that changed something must not refuse any more.
pub struct Desk<'a> {
    pub state: &'a mut State,
    pub ledger: &'a Ledger,
    pub(super) voice: &'a OwnVoice,
    pub(super) halt: &'a Halt,
    closing: &'a Closing,
    staged: &'a mut Staged,
    /// Rows that wait to be written: what every entry of a batch changes again is written once.
    pub(super) rows: Rows,
    pub(super) batch: Batch,
}

/// What the jobs of one batch have done so far.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The disk failed: nothing of it counts.
    pub broken: Option<String>,
    /// Somebody is to be told how far the ledger is.
    pub wants_tip: bool,
    /// Operators changed something: the whole gateway judges by it from the commit on.
    pub wide: bool,
    /// Entries that the state took, in their order.
    pub taken: Vec<Taken>,
    /// What a head of this batch publishes to nodes.
    pub published: Option<Published>,
    /// Something was noted that other gateways want to know.
    pub observed: bool,
}

/// An entry, and what spares its own author to check it again.
#[derive(Debug)]
pub(super) struct Taken {
    pub signed: SignedEntry,
    pub granted: Option<Granted>,
}

impl Taken {
    /// True if the state took it.
    pub fn apply(&self, state: &mut State) -> bool {
        // What others wrote may be void, and stands all the same.
        apply(state, &self.signed, self.granted.as_ref()).is_ok()
    }
}

fn apply(state: &mut State, signed: &SignedEntry, granted: Option<&Granted>) -> Result<Result<(), Void>, Unfit> {
    match granted {
        Some(granted) => state.apply_granted(signed, granted),
        None => state.apply(signed),
    }
}

/// One signer alone can hand in a map: it takes no more memory than this until the threshold has named it.
pub(super) const READ_AHEAD: usize = 256 << 20;

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

impl<'a> Desk<'a> {
    pub(super) fn new(
        (state, staged): (&'a mut State, &'a mut Staged),
        ledger: &'a Ledger,
        (voice, halt, closing): (&'a OwnVoice, &'a Halt, &'a Closing),
    ) -> Self {
        Self { state, ledger, voice, halt, closing, staged, rows: Rows::new(), batch: Batch::default() }
    }

    /// Reads a map that was handed in, if it is whole, so that the head that names it need not wait for that.
    pub fn read_ahead(&mut self, root: Digest) {
        self.staged.keep(Published::read_within(self.ledger, root, READ_AHEAD).ok());
    }

    /// The same of one that was read already.
    pub fn have_ready(&mut self, published: Published) {
        self.staged.keep(Some(published));
    }

    /// Takes operators' entries: all or none.
    pub fn append(&mut self, org: OrgId, entries: Vec<Envelope>) -> Result<(), Refusal> {
        let refuses = |why: String| Refusal::LedgerRefuses { why };
        let opened: Result<Vec<SignedEntry>, _> =
            entries.into_iter().map(|envelope| SignedEntry::open(org, envelope)).collect();
        let opened = opened.map_err(|why| refuses(why.to_string()))?;
        let mut trial = self.state.clone();
        for signed in &opened {
            trial.check_follows(signed, ground::clock::now()).map_err(|why| refuses(why.to_string()))?;
            trial.apply(signed).map_err(|why| refuses(why.to_string()))?.map_err(|why| refuses(why.to_string()))?;
        }
        self.check_cuts(&opened)?;
        self.check_recoveries(&opened)?;
        let published = self.check_published(org, &opened)?;
        self.write_rows()?;
        self.batch.wide = true;
        self.batch.published = published.or(self.batch.published.take());
        let restores =
            |signed: &SignedEntry| matches!(&signed.entry.action, Action::HeadPublish { cause: Cause::Restore, .. });
        if opened.iter().any(restores) {
            // Everything that held the gateway back was about the epoch that ends here.
            self.keep(|desk| desk.ledger.clear_marks())?;
        }
        let changes = derived::changes(Some(self.state), &trial);
        *self.state = trial;
        self.keep(|desk| desk.ledger.change_rows(&changes))?;
        for signed in opened {
            self.keep(|desk| desk.ledger.add_entry(&signed))?;
            self.batch.taken.push(Taken { signed, granted: None });
        }
        self.measure_again()
    }

    /// Once a head says all that was shown, what was shown is history.
    pub(super) fn measure_again(&mut self) -> Result<(), Refusal> {
        if let Some(shown) = self.keep(|desk| desk.ledger.shown())? {
            self.measure(&shown);
            if self.state.open_shown(&shown).is_none_or(|shown| !self.state.lacks(&shown.head)) {
                self.keep(|desk| desk.ledger.forget_shown())?;
            }
        }
        Ok(())
    }

    /// A head that names a map of members is taken only with every leaf and manifest: nodes are told all or nothing.
    fn check_published(&mut self, org: OrgId, opened: &[SignedEntry]) -> Result<Option<Published>, Refusal> {
        let known = self.state.head().and_then(|record| record.head.members);
        let mut published = None;
        for signed in opened {
            let Some(head) = signed.entry.action.head() else {
                continue;
            };
            let named = head.peek::<Head>(Some(org)).ok().and_then(|head| head.members);
            if let Some(root) = named.filter(|root| Some(*root) != known) {
                published = match self.staged.take(root).map_or_else(|| Published::read(self.ledger, root), Ok) {
                    Ok(published) => Some(published),
                    Err(Incomplete::Ledger(why)) => return self.keep(|_| Err(why)),
                    Err(why) => return Err(Refusal::LedgerRefuses { why: why.to_string() }),
                };
            }
        }
        Ok(published)
    }

    /// Compares a head that somebody showed with the ledger's.
    pub fn measure(&self, shown: &Envelope) {
        let opened = self.state.open_shown(shown);
        self.halt.set_outdated(opened.is_some_and(|shown| self.state.is_older_than(&shown.head)));
    }

    /// When a recovery takes effect here: the delay runs from this gateway's own first sight, whatever anybody wrote.
    pub fn due_at(&mut self, recovery: Digest, now: Timestamp) -> Result<Timestamp, Refusal> {
        let since = self.keep(|desk| desk.ledger.first_sight(recovery, now))?;
        Ok(since + self.state.recovery_delay)
    }

    /// The recoveries that wait here, and when each takes effect: those that do so first. A gateway that lies can write that
    /// many more began, and one successor that the signers sign ends them all.
    pub fn recoveries(&mut self, now: Timestamp) -> Result<Vec<(Envelope, Timestamp)>, Refusal> {
        let open: Vec<_> =
            self.state.open_recoveries().map(|record| (record.set.id, record.envelope.clone())).collect();
        let due = open.into_iter().map(|(id, envelope)| Ok((envelope, self.due_at(id, now)?)));
        let mut due: Vec<(Envelope, Timestamp)> = due.collect::<Result<_, Refusal>>()?;
        due.sort_by_key(|(_, due_at)| *due_at);
        due.truncate(MAX_OPEN);
        Ok(due)
    }

    /// How long an entry has to wait that replaces the signers by a recovery.
    pub(super) fn waits(&mut self, signed: &SignedEntry, now: Timestamp) -> Result<Option<Wait>, Refusal> {
        let Some(recovery) = self.state.recovery_in(signed) else {
            return Ok(None);
        };
        let known = self.state.recoveries.get(&recovery).map(|record| record.set.version);
        match known {
            Some(version) if version <= self.state.signer_set().version => Ok(Some(Wait::ForEver)),
            // One that nobody began is nobody's: the fold says so.
            None => Ok(None),
            Some(_) => {
                let due_at = self.due_at(recovery, now)?;
                Ok((now < due_at).then_some(Wait::Until(due_at)))
            }
        }
    }

    /// The entry says when it was written; this gateway's own clock must agree that the delay is over.
    fn check_recoveries(&mut self, entries: &[SignedEntry]) -> Result<(), Refusal> {
        let now = ground::clock::now();
        for signed in entries {
            if let Some(Wait::Until(due_at)) = self.waits(signed, now)? {
                return Err(Refusal::LedgerRefuses { why: format!("the recovery waits until {due_at}") });
            }
        }
        Ok(())
    }

    /// An invite is cut where no machine that it let in is cut off with it. If machines joined meanwhile, the operator
    /// looks again; until then nobody else comes in, or whoever holds the code could put it off for ever.
    fn check_cuts(&self, entries: &[SignedEntry]) -> Result<(), Refusal> {
        for signed in entries {
            let Some(head) = signed.entry.action.head() else {
                continue;
            };
            let head: Option<Head> = head.peek(Some(self.state.org)).ok();
            let cuts = head.iter().flat_map(|head| head.revocations.invites.iter());
            // Whatever the head is said to be for.
            for cut in cuts.filter(|cut| !self.state.revocations.invites.contains(cut)) {
                let here = cut.seen.iter().filter(|at| at.author == self.voice.author);
                let seen = here.map(|at| at.seq).max();
                let record = self.state.invite(cut.invite).map(|(_, record)| record);
                let spends = record.into_iter().flat_map(|record| record.spent.values().flatten());
                if spends.into_iter().any(|spend| spend.by.author == self.voice.author && Some(spend.by.seq) > seen) {
                    self.closing.close(cut.invite);
                    let why = "machines joined meanwhile: look again, and revoke the invite from there".to_owned();
                    return Err(Refusal::LedgerRefuses { why });
                }
            }
        }
        Ok(())
    }

    /// Is this invite about to be revoked?
    pub fn is_closing(&self, invite: InviteId) -> bool {
        self.closing.is_closing(invite)
    }

    /// Writes an entry of this gateway's own about a node key.
    pub fn append_own(
        &mut self,
        (action, node_key): (Action, Digest),
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<(), Refusal> {
        self.append_about((action, node_key), (at, correlation), None)
    }

    /// Writes down whom this gateway has just admitted; the admission.
    pub fn append_granted(
        &mut self,
        granted: Granted,
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<Envelope, Refusal> {
        let admission = granted.envelope().clone();
        let about = (Action::NodeAdmit { admission: admission.clone() }, granted.node_key().digest());
        self.append_about(about, (at, correlation), Some(granted))?;
        Ok(admission)
    }

    fn append_about(
        &mut self,
        (action, node_key): (Action, Digest),
        when: (Timestamp, Correlation),
        granted: Option<Granted>,
    ) -> Result<(), Refusal> {
        self.halt.check()?;
        let signed = self.write_own(action, when, granted.as_ref())?;
        self.keep(|desk| desk.ledger.add_entry(&signed))?;
        self.rows.extend(derived::rows_about(self.state, &signed, node_key));
        self.batch.taken.push(Taken { signed, granted });
        Ok(())
    }

    /// Writes that a recovery begins; also while the gateway is held back: it may be the only way out of that.
    pub fn append_recovery(
        &mut self,
        recovery: Envelope,
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<(), Refusal> {
        let signed = self.write_own(Action::RecoveryBegin { recovery }, (at, correlation), None)?;
        self.write_rows()?;
        self.keep(|desk| desk.ledger.append(desk.state, &signed))?;
        self.batch.taken.push(Taken { signed, granted: None });
        Ok(())
    }

    /// The next entry of this gateway's chain, taken by the state.
    fn write_own(
        &mut self,
        action: Action,
        when: (Timestamp, Correlation),
        granted: Option<&Granted>,
    ) -> Result<SignedEntry, Refusal> {
        let own = (self.voice.author.clone(), &self.voice.key as &dyn Sign);
        let place = (&self.state.frontier, self.state.epoch().number);
        let signed = SignedEntry::write(self.state.org, place, own, when, action);
        let signed = signed.map_err(|why| Refusal::Failed { why: why.to_string() })?;
        let applied = apply(self.state, &signed, granted).map_err(|why| why.to_string());
        if let Err(why) = applied.and_then(|effect| effect.map_err(|void| void.to_string())) {
            // The chain may have moved on in memory: forget the whole batch rather than guess.
            self.batch.broken = Some(why.clone());
            return Err(Refusal::LedgerRefuses { why });
        }
        Ok(signed)
    }

    /// Whoever reads the derived tables, and the commit, wants them whole.
    pub fn write_rows(&mut self) -> Result<(), Refusal> {
        let rows = std::mem::take(&mut self.rows);
        self.keep(|desk| desk.ledger.put_rows(&rows))
    }

    /// Is a word that this gateway once gave about its chain still so? One that is shown its own future, or another past
    /// than it has, was restored from an old copy: it stops issuing, for good.
    pub fn confirms(&mut self, shown: &Tip) -> Result<bool, Refusal> {
        let at = Cut { author: shown.author.clone(), epoch: shown.place.epoch, seq: shown.place.seq };
        let known = self.keep(|desk| desk.ledger.entry_digest(&at))?;
        // What is unknown of an earlier epoch was given up when the ledger was restored.
        if known == Some(shown.place.digest) || shown.place.epoch < self.state.epoch().number {
            return Ok(true);
        }
        self.keep(|desk| desk.ledger.mark_behind(ground::clock::now()))?;
        if self.halt.fall_behind() {
            tracing::error!(
                entry = at.seq,
                "this gateway told others of an entry that its ledger does not have: it was restored from an old copy. \
                 It issues nothing from now on; restore the newest copy of its folder"
            );
        }
        Ok(false)
    }

    /// From now on this node key gets nothing.
    pub fn raise_alarm(&mut self, node_key: Digest, at: Timestamp, alarm: &Alarm) -> Result<(), Refusal> {
        self.halt.alarm(node_key);
        self.keep(|desk| desk.ledger.raise_alarm(node_key, at, alarm))
    }

    /// Does something with the disk; if it fails, the whole batch is undone.
    pub fn keep<T>(&mut self, act: impl FnOnce(&Self) -> Result<T, LedgerError>) -> Result<T, Refusal> {
        act(self).map_err(|why| {
            let why = describe(&why);
            self.batch.broken = Some(why.clone());
            Refusal::Failed { why }
        })
    }
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}
