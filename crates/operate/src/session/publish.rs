//! Signing what was drafted, and handing it in: all of it or none, and again if somebody was quicker (optimistic concurrency).

use std::time::Duration;

use ground::file::Lock;
use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Correlation;
use identity::principal::NodeName;
use identity::time::Timestamp;
use org::ledger::draft::NotDrafted;
use org::refusal::Refusal;
use wire::control::Call;

use crate::key::{KeyError, SignerKeys};
use crate::pending::handed::Handed;
use crate::pending::{Need, Pending};
use crate::replica::roll::Roll;
use crate::session::{DeskError, NextHead, OperateError, Result, Session, Unwise, inbox, stage};

/// Another command may have been quicker; so often the whole is done again on what is so then. Each time somebody
/// else got on, so this is also how many commands may run at once.
const TRIES: usize = 64;

/// What is to be signed: objects, and a head, if one is to name them; and what the command makes of it.
#[derive(Debug)]
pub struct Unsigned<T> {
    pub objects: Vec<Envelope>,
    pub next: Option<NextHead>,
    pub what: T,
}

/// What a command made: in the ledger, or waiting for other operators.
#[derive(Debug)]
pub struct Made<T> {
    pub what: T,
    pub pending: Option<Undelivered>,
    /// What its head does to machines, if there is one in it.
    pub roll: Option<Roll>,
}

/// What waits for other operators.
#[derive(Debug)]
pub struct Undelivered {
    pub pending: Pending,
    /// In which gateway's inbox it lies, or why in none.
    pub inbox: Result<NodeName>,
}

impl<T> Unsigned<T> {
    /// What its head does to machines.
    pub fn roll(self) -> Roll {
        self.next.map(|next| next.roll).unwrap_or_default()
    }
}

impl<T> Made<T> {
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Made<U> {
        Made { what: make(self.what), pending: self.pending, roll: self.roll }
    }
}

impl Session {
    /// Signs what `draft` makes of the present state, and hands it in, if the keys at hand are enough for it; else it
    /// waits for the others. If somebody else was quicker, again.
    pub(crate) async fn publish<T>(
        &mut self,
        keys: &SignerKeys,
        draft: impl Fn(&Self, Timestamp) -> Result<Unsigned<T>>,
    ) -> Result<Made<T>> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let mut attempt = 1;
        loop {
            let now = clock::now();
            self.check_clock(now)?;
            Box::pin(self.folded()).await?;
            let Unsigned { mut objects, next, what } = draft(self, now).map_err(|why| self.held_back(why))?;
            let (mut roll, mut listing) = (None, None);
            if let Some(next) = next {
                self.tell(&next.roll);
                listing = Box::pin(stage::stage_drafted(self, &next.map)).await?;
                objects.push(self.seal(&next.head)?);
                roll = Some(next.roll);
            }
            let mut pending = Pending::new(&self.known, Handed(objects), now);
            pending.listing = listing;
            pending.sign(&self.known, keys)?;
            let needs = pending.needs(&self.known)?;
            if !needs.iter().all(Need::is_met) {
                if needs.iter().all(|need| need.signed.is_empty()) {
                    return Err(KeyError::NoKey.into());
                }
                let inbox = inbox::leave(self, &pending).await;
                return Ok(Made { what, pending: Some(Undelivered { pending, inbox }), roll });
            }
            let stood = self.survey.frontier.clone();
            match Box::pin(self.hand_over(pending.handed, correlation)).await {
                Ok(()) => return Ok(Made { what, pending: None, roll }),
                // A gateway that refuses although nobody got on is not given one signed thing after the other.
                Err(OperateError::Desk(why))
                    if attempt < TRIES
                        && matches!(why.refusal(), Some(Refusal::LedgerRefuses { .. }))
                        && self.survey.frontier != stood =>
                {
                    attempt += 1;
                    // Perhaps at another gateway.
                    self.handed_in = None;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// The same for a head alone.
    pub(crate) async fn publish_head(
        &mut self,
        keys: &SignerKeys,
        draft: impl Fn(&Self, Timestamp) -> Result<NextHead>,
    ) -> Result<Made<Head>> {
        self.publish(keys, |session, now| {
            let next = draft(session, now)?;
            Ok(Unsigned { objects: Vec::new(), what: next.head.clone(), next: Some(next) })
        })
        .await
    }

    /// One signer's word, by whoever speaks here: others add theirs to the same bytes, or it counts alone.
    pub(crate) async fn say(
        &mut self,
        keys: &SignerKeys,
        draft: impl FnOnce(&Self, Timestamp) -> Result<Envelope>,
    ) -> Result<Envelope> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let now = clock::now();
        self.check_clock(now)?;
        let (_, key) = keys.author(self.memory.signer.as_ref(), &self.signers().quorum)?;
        let word = draft(self, now)?.signed(key.as_ref()).map_err(KeyError::from)?;
        self.hand_over(Handed::of(word.clone()), correlation).await?;
        Ok(word)
    }

    /// Of a gateway that is held back, that is what must be told.
    fn held_back(&self, why: OperateError) -> OperateError {
        match (&why, &self.survey.halt) {
            (OperateError::NotDrafted(NotDrafted::NoMap), Some(halt)) => DeskError::Refused(halt.clone()).into(),
            (_, Some(_) | None) => why,
        }
    }

    /// Waits until no other command of this operator signs.
    pub(crate) async fn turn_to_sign(&self) -> Result<Lock> {
        for _ in 0..1_200 {
            if let Some(lock) = self.folder.lock_signing()? {
                return Ok(lock);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Unwise::Signing.into())
    }

    /// Hands in what is signed, all or none, and is content only when this home's own copy of the ledger has it.
    pub(crate) async fn hand_over(&mut self, handed: Handed, correlation: Correlation) -> Result<()> {
        // A gateway that is held back is looked at, not written to, but for what leads out of that.
        if self.survey.tip.is_none() && !handed.leads_out(self.known.org()) {
            return Err(match self.survey.halt.clone() {
                Some(halt) => DeskError::Refused(halt).into(),
                None => OperateError::LedgerBehind,
            });
        }
        for bundle in handed.bundles() {
            self.folder.keep_bundle(bundle)?;
        }
        let sent = self.desk.ask(Call::Take { objects: handed.0.clone(), correlation }).await;
        if sent.is_ok() {
            self.take_own(&handed)?;
        }
        // Without an answer it may have been taken or not: the ledger says.
        match self.look_again().await {
            // Whoever left the signers with this is told nothing more.
            Err(OperateError::Desk(why)) if sent.is_ok() && is_farewell(&handed, &why) => return Ok(()),
            looked => looked?,
        }
        let state = Box::pin(self.folded()).await?;
        let taken = handed.0.iter().all(|object| state.has_object(object));
        match sent {
            _ if taken => Ok(()),
            Ok(_) => Err(OperateError::NotTaken),
            Err(why) => Err(why.into()),
        }
    }

    /// What this operator signed and handed in is known to it, whatever a gateway shows.
    fn take_own(&mut self, handed: &Handed) -> Result<()> {
        let Some(head) = handed.head(self.known.org()) else { return Ok(()) };
        // Another operator's head may have followed already.
        if head.place() > self.known.head.head.place() {
            let more: Vec<Envelope> = handed.step().cloned().into_iter().collect();
            self.known = self.known.advance(&more, handed.head_envelope(), clock::now())?;
            self.remember(|_| {})?;
        }
        Ok(())
    }
}

/// Whoever signed their own successors is a signer no longer.
fn is_farewell(handed: &Handed, why: &DeskError) -> bool {
    handed.step().is_some() && matches!(why.refusal(), Some(Refusal::NotAnOperator))
}
