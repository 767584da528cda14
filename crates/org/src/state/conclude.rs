//! From what came to what is true: the ledger's judges are asked, and their answers put in order for whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Payload as _;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::invite::Invite;
use crate::invite::admission::ClaimAuthority;
use crate::ledger::chain::Written;
use crate::ledger::evidence::Evidence;
use crate::ledger::frontier::Frontier;
use crate::state::judged::ground_of;
use crate::state::objects::Signed;
use crate::state::{AdmissionRecord, Invites, Judged, MemberRecord, Members, Standing, State};

impl State {
    /// Judges everything that is here, as of now.
    pub fn conclude(&mut self, now: Timestamp) {
        let before: Vec<Digest> = self.signer_sets().map(|set| set.id).collect();
        self.judged = Judged::of(&self.replica, now);
        if !self.signer_sets().map(|set| set.id).eq(before) {
            // Other signers' words count now, and what only those signed who were never in force is nobody's.
            self.fresh = self.replica.objects.keys().copied().collect();
            self.invites = Invites::default();
            self.objects.forget_words();
        }
        self.file();
        self.frontier = Frontier::of(&self.replica.chains);
        self.invites.count(&self.judged.fold, &self.judged.ground.revoked);
        self.seat();
    }

    /// Puts what came since where it is asked for.
    fn file(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.is_empty() {
            return;
        }
        let (org, set, frozen) = (self.org, self.signer_set().clone(), self.is_frozen());
        let by = Signed { org, set, sets: self.signer_sets().cloned().collect(), frozen };
        for digest in fresh {
            let Some(object) = self.replica.objects.get(&digest).cloned() else { continue };
            if object.kind() != Invite::KIND {
                self.objects.file(digest, object, &by);
                continue;
            }
            let invite: Option<Invite> = object.peek(Some(org)).ok().filter(Invite::is_well_formed);
            if let Some(invite) = invite.filter(|_| by.ever(&object)) {
                self.invites.insert(digest, invite, object);
            }
        }
    }

    /// Heads by which something would be judged now, and that were shortened.
    pub fn wanting(&self, now: Timestamp) -> BTreeSet<Digest> {
        self.replica.wanting(&self.replica.signers(now))
    }

    /// Keeps of older heads only what is still asked of them. For whoever has them on disk.
    pub fn shorten(&mut self, now: Timestamp) {
        let ground = ground_of(&self.replica, &self.replica.signers(now));
        self.replica.shorten(&ground);
    }

    /// The members' map that the head in force would name: whoever has it brings it first.
    pub fn root_at(&self, now: Timestamp) -> Option<Digest> {
        ground_of(&self.replica, &self.replica.signers(now)).head.and_then(|record| record.head.members)
    }

    /// Every node key that a gateway let in, and how it stands.
    fn seat(&mut self) {
        let mut given: BTreeMap<Digest, Vec<AdmissionRecord>> = BTreeMap::new();
        let listed: BTreeSet<Digest> =
            self.leaves().into_iter().flat_map(BTreeMap::values).map(|leaf| leaf.admission).collect();
        for (voice, entries) in &self.replica.chains {
            // Nobody's voice lets nobody in.
            let Some(gateway) = self.judged.voices.get(voice) else { continue };
            for written in entries.values() {
                if let Some(evidence) = written.evidence(listed.contains(&written.digest)) {
                    given.entry(evidence.key()).or_default().push(admission(written, evidence, gateway));
                }
            }
        }
        let counting: BTreeMap<Digest, (&NodeName, Digest)> =
            self.judged.fold.members.iter().map(|(name, it)| (it.key, (name, it.admission))).collect();
        let mut members = Members::default();
        for (key, mut admissions) in given {
            // Of one that is listed by what is not here, another that has the name of its leaf.
            let counts = counting.get(&key);
            admissions.sort_by_key(|it| {
                let other_name = counts.is_none_or(|(name, _)| **name != it.claim.name);
                (counts.is_none_or(|(_, digest)| *digest != it.digest), other_name, it.digest)
            });
            let mut admissions = admissions.into_iter();
            let Some(first) = admissions.next() else { continue };
            let member = self.member_of(first, admissions.collect());
            members.insert(key, member);
        }
        self.members = members;
    }

    pub(crate) fn member_of(&self, admission: AdmissionRecord, others: Vec<AdmissionRecord>) -> MemberRecord {
        let (claim, key) = (&admission.claim, admission.claim.node_key.digest());
        // Under this very name: a leaf says nothing for another.
        let counts = self.judged.fold.members.get(&claim.name).is_some_and(|it| it.key == key);
        let ended = self.revoked().principals.iter().any(|it| it.node_name().as_ref() == Some(&claim.name));
        let left = self.judged.fold.left.contains(&key);
        // The gateway's own node has nobody else to come back to.
        let founder = claim.authority == ClaimAuthority::Signers && claim.name == admission.gateway;
        let joined = self.judged.fold.joined.contains(&key);
        let standing = match (left || ended || self.revoked().node_keys.contains(&key), counts) {
            (true, _) => Standing::Revoked,
            (false, false) => Standing::Waiting,
            (false, true) if founder || joined => Standing::Member,
            (false, true) => Standing::Issued,
        };
        let waits = |digest: Digest| self.judged.fold.waiting.get(&digest).map(|waiting| waiting.why.clone());
        let why = Some(standing).filter(|it| *it == Standing::Waiting).and_then(|_| waits(admission.digest));
        MemberRecord { admission, others, joined, left, standing, why }
    }
}

pub(crate) fn admission(written: &Written, evidence: &Evidence, gateway: &NodeName) -> AdmissionRecord {
    AdmissionRecord {
        claim: evidence.claim.clone(),
        invite: evidence.invite.as_ref().map(|(_, invite)| invite.id),
        claimed: evidence.claimed,
        digest: written.digest,
        gateway: gateway.clone(),
        voice: written.voice,
        seq: written.seq,
        at: written.at,
    }
}
