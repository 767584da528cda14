//! A signer's yes to names, beforehand: given, joined by others, listed.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::SignerName;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};
use org::invite::approve::{Decision, Verdict, Waiver};
use serde::Serialize;

use crate::key::{KeyError, SignerKeys};
use crate::pending::handed::Handed;
use crate::session::desk::Desk;
use crate::session::{OperateError, Session};

/// A waiver, and those of today's signers who gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waived {
    pub id: Digest,
    pub names: Vec<NameGlob>,
    pub from: Timestamp,
    pub until: Timestamp,
    pub signed: Vec<SignerName>,
    #[serde(skip)]
    envelope: Envelope,
}

impl<D: Desk> Session<D> {
    /// Says yes beforehand, by the signer whose key is at hand.
    pub async fn waive(&mut self, keys: &SignerKeys, names: &[NameGlob], ttl: Seconds) -> Result<Waived, OperateError> {
        if ttl.0 == 0 || ttl > Waiver::LONGEST {
            return Err(OperateError::Unwise(format!("a waiver lasts between 1s and {}", Waiver::LONGEST)));
        }
        let now = clock::now();
        let waiver = self.seal(&Waiver { names: names.to_vec(), from: now, until: now + ttl })?;
        self.hand_waiver(keys, waiver).await
    }

    /// Says yes to what another signer said: the same bytes, so that the two add up. They are the ones that were shown:
    /// a gateway that is asked again could hand over others.
    pub async fn join_waiver(&mut self, keys: &SignerKeys, shown: Waived) -> Result<Waived, OperateError> {
        if shown.signed.is_empty() {
            return Err(OperateError::Unwise(format!("no signer of today has signed the waiver {}", shown.id)));
        }
        self.hand_waiver(keys, shown.envelope).await
    }

    /// Ends a waiver before its time: one signer's no is enough, and stands.
    pub async fn end_waiver(&mut self, keys: &SignerKeys, shown: &Waived) -> Result<(), OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        self.check_clock(clock::now())?;
        let (_, key) = keys.author(self.signer(), &self.known.signers.quorum)?;
        let no = self.seal(&Decision { about: shown.id, verdict: Verdict::Deny })?;
        let no = no.signed(key.as_ref()).map_err(KeyError::from)?;
        self.hand_over(Handed::of(no), correlation).await?;
        Ok(())
    }

    /// By the beginning of its id.
    pub async fn waiver(&mut self, wanted: &str) -> Result<Waived, OperateError> {
        let mut fits = self.waivers().await?.into_iter().filter(|waived| waived.id.to_string().starts_with(wanted));
        let no_such = || OperateError::NoSuch { what: "waiver", name: wanted.to_owned() };
        let first = fits.next().filter(|_| !wanted.is_empty()).ok_or_else(no_such)?;
        match fits.next() {
            Some(_) => Err(OperateError::Unwise(format!("several waivers fit `{wanted}`: give more of the id"))),
            None => Ok(first),
        }
    }

    /// All that the ledger has; what is in them is read from their bytes here.
    pub async fn waivers(&mut self) -> Result<Vec<Waived>, OperateError> {
        let state = self.folded().await?;
        let waivers = state.open_waivers().cloned();
        let mut read = waivers.map(|waiver| self.read_waiver(waiver)).collect::<Result<Vec<_>, _>>()?;
        read.sort_by_key(|waived| (waived.from, waived.id));
        Ok(read)
    }

    fn read_waiver(&self, envelope: Envelope) -> Result<Waived, OperateError> {
        let Waiver { names, from, until } = envelope.peek(Some(self.known.org()))?;
        let quorum = &self.known.signers.quorum;
        let keys = envelope.signers_among(&quorum.keys());
        let signed = quorum.signers().iter().filter(|signer| keys.contains(&signer.key));
        let signed = signed.map(|signer| signer.name.clone()).collect();
        Ok(Waived { id: envelope.digest(), names, from, until, signed, envelope })
    }

    async fn hand_waiver(&mut self, keys: &SignerKeys, mut waiver: Envelope) -> Result<Waived, OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        self.check_clock(clock::now())?;
        // By the signer who speaks here; others add their signatures to the same bytes.
        let (_, key) = keys.author(self.signer(), &self.known.signers.quorum)?;
        waiver.sign(key.as_ref()).map_err(KeyError::from)?;
        self.hand_over(Handed::of(waiver.clone()), correlation).await?;
        self.read_waiver(waiver)
    }
}
