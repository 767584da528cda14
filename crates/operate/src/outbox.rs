//! Handing in: what is signed is on disk before it leaves, and is sent as it is until the ledger shows it.

use ground::clock;
use identity::head::{Cause, Head};
use identity::id::Correlation;
use identity::principal::Author;
use identity::signers::{Quorum, Word};
use identity::time::Timestamp;
use org::entry::{Action, SignedEntry};
use org::frontier::Frontier;
use wire::control::Call;

use crate::desk::{Desk, DeskError};
use crate::keys::SignerKeys;
use crate::refused::{is_a_refusal, is_farewell};
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    /// What was signed and may not have been sent.
    pub(crate) fn outbox(&self) -> Option<SignedEntry> {
        let envelope = self.memory.outbox.clone()?;
        SignedEntry::open(self.known.org(), envelope).ok()
    }

    /// Puts one action into this operator's chain, and that into the ledger.
    pub(crate) async fn hand_over(
        &mut self,
        keys: &SignerKeys,
        action: Action,
        correlation: Correlation,
    ) -> Result<(), OperateError> {
        // A gateway that is behind is looked at, not written to, but for what leads out of that.
        let restores = action.cause(self.known.org()) == Some(Cause::Restore);
        let leads_out = restores || action.installs(self.known.org()).is_some();
        if self.survey.tip.is_none() && !leads_out {
            return Err(self.halted());
        }
        self.clear_outbox().await?;
        for bundle in action.bundles() {
            self.folder.keep_bundle(bundle)?;
        }
        // Before the epoch has begun nothing can be written that would stay, so what it needs goes right behind its head.
        let lacking = match action.head().filter(|_| restores) {
            Some(head) => {
                let head: Head = head.peek(Some(self.known.org()))?;
                self.lacking(&head.trust).await?
            }
            None => Vec::new(),
        };
        let publish = |(_, bundle)| Action::TrustPublish { bundle };
        let actions = std::iter::once(action).chain(lacking.into_iter().map(publish));
        let entries = self.write_entries(keys, actions, (clock::now(), correlation))?;
        // On disk before it leaves: whatever happens now, nothing else is ever signed in its place.
        let mut envelopes: Vec<_> = entries.iter().map(|entry| entry.envelope.clone()).collect();
        let rest = envelopes.split_off(1);
        self.remember(|memory| (memory.outbox, memory.outbox_rest) = (envelopes.pop(), rest))?;
        self.hand_in(&entries).await
    }

    /// Why the gateway cannot be written to.
    fn halted(&self) -> OperateError {
        match self.survey.halt.clone() {
            Some(halt) => DeskError::Refused(halt).into(),
            None => OperateError::LedgerBehind,
        }
    }

    /// Sends entries, which a gateway takes all or none, and is content only when the ledger shows the last.
    async fn hand_in(&mut self, entries: &[SignedEntry]) -> Result<(), OperateError> {
        let Some(last) = entries.last() else { return Ok(()) };
        let envelopes = entries.iter().map(|entry| entry.envelope.clone()).collect();
        let sent = self.desk.ask(Call::Append { entries: envelopes }).await;
        if sent.is_ok() {
            self.take_own(entries)?;
        }
        // Without an answer it may have been taken or not: the ledger says.
        match self.look_again().await {
            // Whoever left the signers with this is told nothing more.
            Err(OperateError::Desk(why)) if sent.is_ok() && is_farewell(self.known.org(), &last.entry.action, &why) => {
                return self.empty_outbox();
            }
            looked => looked?,
        }
        let place = self.survey.frontier.place_of(&last.entry.author).copied();
        // A copy of this folder elsewhere may have written on since.
        let written_past = sent.is_ok() && place.is_some_and(|place| place.seq > last.entry.seq);
        if place == Some(last.place()) || written_past {
            self.take_own(entries)?;
            self.empty_outbox()?;
            // What was decided here is in this home's copy, too, before the gateway can be lost.
            self.pull().await;
            return Ok(());
        }
        match sent {
            Ok(_) => Err(OperateError::NotTaken),
            Err(why) => {
                if is_a_refusal(&why) {
                    self.empty_outbox()?;
                }
                Err(why.into())
            }
        }
    }

    fn empty_outbox(&mut self) -> Result<(), OperateError> {
        self.remember(|memory| (memory.outbox, memory.outbox_rest) = (None, Vec::new()))
    }

    /// What this operator signed and handed in is known to it, whatever a gateway shows.
    fn take_own(&mut self, entries: &[SignedEntry]) -> Result<(), OperateError> {
        for entry in entries {
            let more = entry.entry.action.installs(self.known.org()).cloned();
            if let Some(head) = entry.entry.action.head() {
                let version = head.peek::<Head>(Some(self.known.org()))?.version;
                // Another operator's head may have followed already.
                if version > self.known.head.head.version {
                    self.known = self.known.advance(more.as_slice(), Some(head), clock::now())?;
                }
            }
            let own = Frontier([(entry.entry.author.clone(), entry.place())].into());
            self.remember(|memory| memory.frontier.raise(&own))?;
        }
        Ok(())
    }

    /// An earlier command was cut off after it signed: its entry is in the ledger, or is sent again as it was.
    pub(crate) async fn clear_outbox(&mut self) -> Result<(), OperateError> {
        let Some(envelope) = self.memory.outbox.clone() else {
            return Ok(());
        };
        let envelopes = std::iter::once(envelope).chain(self.memory.outbox_rest.clone());
        let open = |envelope| SignedEntry::open(self.known.org(), envelope);
        let entries: Vec<SignedEntry> = envelopes.map(open).collect::<Result<_, _>>()?;
        let Some(last) = entries.last() else { return Ok(()) };
        let place = self.survey.frontier.place_of(&last.entry.author).copied();
        if place.is_some_and(|place| place.seq >= last.entry.seq) {
            return self.empty_outbox();
        }
        match self.hand_in(&entries).await {
            Ok(()) => Ok(()),
            // A clear no: others were quicker meanwhile, and it never was part of the ledger.
            Err(OperateError::Desk(why)) if is_a_refusal(&why) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// The next entries of this operator's chain.
    fn write_entries(
        &self,
        keys: &SignerKeys,
        actions: impl Iterator<Item = Action>,
        about: (Timestamp, Correlation),
    ) -> Result<Vec<SignedEntry>, OperateError> {
        let (mut frontier, mut epoch) = (self.survey.frontier.clone(), self.known.head.head.epoch.number);
        let mut entries = Vec::new();
        for action in actions {
            let (name, key) = keys.author(self.signer(), &self.authors(&action))?;
            let own = (Author::Signer(name.clone()), key.as_ref());
            // The entry that begins an epoch is its first.
            if let Some(head) = action.head() {
                let head: Head = head.peek(Some(self.known.org()))?;
                epoch = if head.cause == Cause::Restore { head.epoch.number } else { epoch };
            }
            let entry = SignedEntry::write(self.known.org(), (&frontier, epoch), own, about, action)?;
            frontier.0.insert(entry.entry.author.clone(), entry.place());
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Whose chain can hold this action: a recovered set begins its own.
    fn authors(&self, action: &Action) -> Quorum {
        let recovery = &self.known.founding.record.recovery;
        let step = action.installs(self.known.org());
        let recovered = step.and_then(|step| self.known.signers.succeed(step, recovery).ok());
        match recovered {
            Some((set, Word::Recovery)) => set.quorum,
            _ => self.known.signers.quorum.clone(),
        }
    }
}
