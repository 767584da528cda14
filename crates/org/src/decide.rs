//! Signers let a claim in or turn it away, or waive that anybody looks.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::principal::{Author, NodeName};
use identity::time::Timestamp;

use crate::approve::{Approved, Decision, Verdict, Waiver, voices};
use crate::entry::SignedEntry;
use crate::invite::Invite;
use crate::state::{State, Void, bad};

impl State {
    pub(crate) fn decide(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let (org, kept) = self.spoken(signed, envelope)?;
        let decision: Decision = kept.peek(Some(org)).map_err(|why| bad(&why))?;
        let words = self.decisions.entry(decision.about).or_default();
        words.entry(decision.verdict).and_modify(|known| known.merge(&kept)).or_insert(kept);
        Ok(())
    }

    pub(crate) fn waive(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let (org, kept) = self.spoken(signed, envelope)?;
        let waiver: Waiver = kept.peek(Some(org)).map_err(|why| bad(&why))?;
        if waiver.until.since(waiver.from) > Waiver::LONGEST {
            return Err(Void::BadObject("it waives for too long".to_owned()));
        }
        self.waivers.entry(kept.digest()).and_modify(|known| known.merge(&kept)).or_insert(kept);
        Ok(())
    }

    /// Signed at least by the signer in whose chain it stands; only signatures of that time's signers are kept.
    fn spoken(&self, signed: &SignedEntry, envelope: &Envelope) -> Result<(OrgId, Envelope), Void> {
        let Author::Signer(_) = &signed.entry.author else {
            return Err(Void::BeyondPower);
        };
        let keys: BTreeSet<PublicKey> = self.signers_before(signed).quorum.keys();
        let own = envelope.signers_among(&[signed.entry.key].into());
        if own.is_empty() || !keys.contains(&signed.entry.key) {
            return Err(Void::BadObject("its author has not signed it".to_owned()));
        }
        Ok((self.org, envelope.kept(&keys)))
    }

    /// Did a signer ever say no to this claim or admission? A no stands, also when that signer is gone.
    pub fn is_denied(&self, about: Digest) -> bool {
        self.decisions.get(&about).is_some_and(|words| words.contains_key(&Verdict::Deny))
    }

    /// The threshold of today's signers said yes to this admission and none said no: it stays, although its invite or
    /// its gateway was taken back.
    pub(crate) fn is_let_stay(&self, admission: Digest) -> bool {
        let signers = self.signer_set();
        let said = self.decisions.get(&admission).and_then(|words| words.get(&Verdict::Approve));
        let enough = said.is_some_and(|envelope| voices(envelope, signers) >= signers.quorum.threshold());
        enough && !self.is_denied(admission)
    }

    /// Those that nobody has ended.
    pub fn open_waivers(&self) -> impl Iterator<Item = &Envelope> {
        self.waivers.iter().filter(|(digest, _)| !self.is_denied(**digest)).map(|(_, waiver)| waiver)
    }

    /// The yes that lets this claim in now, if there is one. Only today's signers count.
    pub fn approval_of(&self, invite: &Invite, claim: Digest, name: &NodeName, at: Timestamp) -> Option<&Envelope> {
        let said = self.decisions.get(&claim).and_then(|words| words.get(&Verdict::Approve));
        let signers = [self.signer_set().clone()];
        let holds = |envelope: &&Envelope| Approved::check(envelope, (invite, claim), name, at, &signers).is_some();
        said.into_iter().chain(self.open_waivers()).find(holds)
    }
}
