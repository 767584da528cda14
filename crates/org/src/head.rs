//! A head as the ledger takes it: revocations win, mandates give voices, names become free.

use identity::envelope::Envelope;
use identity::head::{BadHead, Revocations, SignedHead};
use identity::id::Digest;
use identity::principal::{Author, NodeName};
use identity::time::{Seconds, Timestamp};

use crate::entry::{Cause, SignedEntry};
use crate::release::Release;
use crate::state::{HeadRecord, ReleaseRecord, State, Void, add_first, bad};

/// So far two good clocks may be apart. What is dated further ahead was signed by a wrong one, or read by one.
pub const AHEAD: Seconds = Seconds::MINUTE.times(5);

impl State {
    /// What a gateway demands of an operator's entry on top: a head must follow the one in force, as every node will
    /// demand of it. Replicas cannot ask this of each other, since heads from two sides may meet.
    pub fn check_follows(&self, signed: &SignedEntry, now: Timestamp) -> Result<(), BadHead> {
        let (Some(head), Some(known)) = (signed.entry.action.head(), self.head()) else {
            return Ok(());
        };
        let next = SignedHead { head: head.peek(Some(self.org))?, digest: head.digest() };
        // A head that was kept back, complete, would undo what was decided since. Clocks may be an hour apart; one that
        // was far ahead when it signed the head in force says nothing.
        let issued_at = next.head.issued_at;
        if issued_at + Seconds::HOUR < known.head.issued_at && known.head.issued_at <= now {
            return Err(BadHead::DraftedEarlier { version: next.head.version, issued_at });
        }
        let mut known = SignedHead { head: known.head.clone(), digest: known.digest };
        // Remove wins, whichever head of the signers in force named it first.
        known.head.revocations.absorb(&self.revocations);
        known.head.trust = self.trust_lines();
        next.may_follow(&known)
    }

    pub(crate) fn publish_head(
        &mut self,
        signed: &SignedEntry,
        envelope: &Envelope,
        cause: &Cause,
    ) -> Result<(), Void> {
        let signers = self.signers_before(signed);
        let opened = SignedHead::open(signers, envelope).map_err(|why| bad(&why))?;
        let envelope = envelope.kept(&signers.quorum.keys());
        let head = &opened.head;
        let does_it = match cause {
            Cause::Founding | Cause::Refresh | Cause::Restore => true,
            Cause::MandateChange { gateway } | Cause::GatewayAdd { gateway } => {
                head.mandates.iter().any(|mandate| mandate.gateway == *gateway)
            }
            Cause::GatewayMove { gateway } => head.first_gateway() == Some(gateway),
            Cause::GatewayRemove { gateway } => {
                let author = Author::Gateway(gateway.clone());
                head.mandates.iter().all(|mandate| mandate.gateway != *gateway)
                    && head.revocations.authors.iter().any(|cut| cut.author == author)
            }
            Cause::NodeRevoke { node_key, .. } => head.revocations.node_keys.contains(node_key),
            Cause::InviteRevoke { invite } => head.revocations.invite_is_revoked(*invite),
            Cause::FleetPublish => head.members.is_some() && head.reverts.is_none(),
            Cause::FleetRollback { to } => head.members.is_some() && head.reverts == Some(*to),
            Cause::PrincipalRevoke { principal } => head.revocations.principals.contains(principal),
        };
        if !does_it {
            return Err(Void::BadObject("the head does not do what the entry says".into()));
        }
        match cause {
            // That it begins rightly was checked before the entry got its place.
            Cause::Restore => self.begin_epoch(signed, &opened.head.epoch),
            Cause::Founding
            | Cause::Refresh
            | Cause::NodeRevoke { .. }
            | Cause::InviteRevoke { .. }
            | Cause::MandateChange { .. }
            | Cause::GatewayAdd { .. }
            | Cause::GatewayMove { .. }
            | Cause::GatewayRemove { .. }
            | Cause::FleetPublish
            | Cause::FleetRollback { .. }
            | Cause::PrincipalRevoke { .. } => {
                self.check_epoch_kept(signed, head)?;
            }
        }
        self.take_head(signed, opened, envelope);
        Ok(())
    }

    /// The agents and the head that names them stand together: neither means anything alone.
    pub(crate) fn publish_release(
        &mut self,
        signed: &SignedEntry,
        release: &Envelope,
        head: &Envelope,
    ) -> Result<(), Void> {
        let signers = self.signers_before(signed);
        let body: Release = signers.open(release).map_err(|why| bad(&why))?;
        body.check().map_err(|why| bad(&why))?;
        let opened = SignedHead::open(signers, head).map_err(|why| bad(&why))?;
        let digest = release.digest();
        if opened.head.release != Some(digest) {
            return Err(Void::BadObject("the head does not name the release".into()));
        }
        let keys = signers.quorum.keys();
        let (release, head) = (release.kept(&keys), head.kept(&keys));
        self.check_epoch_kept(signed, &opened.head)?;
        let known = self.releases.entry(digest);
        known.or_insert_with(|| ReleaseRecord { release: body, envelope: release.clone() }).envelope.merge(&release);
        self.take_head(signed, opened, head);
        Ok(())
    }

    pub(crate) fn take_head(&mut self, signed: &SignedEntry, opened: SignedHead, envelope: Envelope) {
        let head = &opened.head;
        // Signers who were replaced revoke nobody: what they had said before, their successors' first head says again.
        if head.signers == self.signer_set().as_ref() {
            self.revocations.absorb(&head.revocations);
        }
        for mandate in &head.mandates {
            let gateways = self.voices.entry(mandate.voice).or_default();
            add_first(gateways.entry(mandate.gateway.clone()).or_default(), signed);
        }
        for key in head.revocations.node_keys.iter() {
            self.end(signed, *key);
        }
        let (place, digest) = ((head.version, opened.digest), opened.digest);
        match self.heads.get_mut(&place) {
            None => {
                self.heads.insert(place, HeadRecord { digest, envelope, head: opened.head });
            }
            Some(known) => known.envelope.merge(&envelope),
        }
    }

    /// Others sign from now on: what their heads revoke counts, whichever of them came first.
    pub(crate) fn revoke_anew(&mut self) {
        let signers = self.signer_set().as_ref();
        let mut revocations = Revocations::default();
        for record in self.heads.values().filter(|record| record.head.signers == signers) {
            revocations.absorb(&record.head.revocations);
        }
        self.revocations = revocations;
    }

    pub(crate) fn end(&mut self, signed: &SignedEntry, key: Digest) {
        add_first(self.endings.entry(key).or_default(), signed);
        if let Some(name) = self.members.get(&key).map(|member| member.claim().name.clone()) {
            self.settle_name(&name);
        }
    }

    /// Decides anew who holds a name, from all claims to it: whoever is lowest in history, and each later one in
    /// whose own past all earlier ones had ended, or that ended them itself by taking their place.
    pub(crate) fn settle_name(&mut self, name: &NodeName) {
        let claimed = self.names.get(name).into_iter().flatten();
        let claimed = claimed.filter_map(|key| self.members.get_key_value(key));
        let mut rivals: Vec<_> = claimed.filter(|(_, member)| member.claim().name == *name).collect();
        rivals.sort_by_key(|(_, member)| member.admission.rank());
        let (mut standing, mut verdicts) = (Vec::new(), Vec::new());
        for (key, member) in rivals {
            let gone = |earlier: &Digest| {
                let endings = self.endings.get(earlier);
                endings.is_some_and(|endings| endings.iter().any(|at| member.admission.is_after(at)))
            };
            let outrun = !standing.iter().all(gone);
            if !outrun {
                standing.push(*key);
            }
            verdicts.push((*key, outrun));
        }
        for (key, outrun) in verdicts {
            if let Some(member) = self.members.get_mut(&key) {
                member.outrun = outrun;
            }
        }
    }
}
