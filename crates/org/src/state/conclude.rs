//! From what came to what is true: the ledger's judges are asked, and their answers put in order for whoever asks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload as _};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::signers::SignerSet;
use identity::time::Timestamp;

use crate::invite::Invite;
use crate::invite::admission::ClaimAuthority;
use crate::invite::approve::{Decision, Waiver};
use crate::ledger::chain::Written;
use crate::ledger::evidence::Evidence;
use crate::ledger::frontier::Frontier;
use crate::ledger::ground::{Ground, frozen_ground, ground};
use crate::ledger::heads::Held;
use crate::ledger::replica::Replica;
use crate::ledger::signers::Signers;
use crate::release::Release;
use crate::state::consent::Consent;
use crate::state::{
    AdmissionRecord, BundleRecord, InviteRecord, MemberRecord, ReleaseRecord, Standing, State, SuspensionRecord,
};
use crate::suspend::{self, Suspension};

impl State {
    /// Judges everything that is here, as of now.
    pub fn conclude(&mut self, now: Timestamp) {
        (self.as_of, self.ahead) = (now, self.replica.ahead);
        let before: Vec<Digest> = self.signer_sets().map(|set| set.id).collect();
        self.signers = self.replica.signers(now);
        self.ground = Self::ground_of(&self.replica, &self.signers);
        self.revocations = self.ground.revoked.clone();
        if !self.signer_sets().map(|set| set.id).eq(before) {
            // Other signers' words count now, and what only those signed who were never in force is nobody's.
            self.fresh = self.replica.objects.keys().copied().collect();
            self.invites.clear();
            self.invite_ids.clear();
            self.waivers.clear();
            self.consents.clear();
            self.suspensions.clear();
        }
        for digest in std::mem::take(&mut self.fresh) {
            if let Some(object) = self.replica.objects.get(&digest).cloned() {
                self.file(digest, object);
            }
        }
        // What the head in force says of a voice comes last, and stays.
        self.voices = self.heads().chain(self.head().map(Held::Whole)).flat_map(Held::voices).collect();
        self.denied = self.replica.denied(&self.ground);
        self.fold = self.replica.fold(&self.ground);
        self.frontier = Frontier::of(&self.replica.chains);
        self.count_uses();
        self.seat();
    }

    /// Heads by which something would be judged now, and that were shortened.
    pub fn wanting(&self, now: Timestamp) -> BTreeSet<Digest> {
        self.replica.wanting(&self.replica.signers(now))
    }

    /// Keeps of older heads only what is still asked of them. For whoever has them on disk.
    pub fn shorten(&mut self, now: Timestamp) {
        let ground = Self::ground_of(&self.replica, &self.replica.signers(now));
        self.replica.shorten(&ground);
    }

    /// The members' map that the head in force would name: whoever has it brings it first.
    pub fn root_at(&self, now: Timestamp) -> Option<Digest> {
        Self::ground_of(&self.replica, &self.replica.signers(now)).head.and_then(|record| record.head.members)
    }

    /// By the set in force; if two claim its place, by the last that nobody contests.
    pub(crate) fn ground_of(replica: &Replica, signers: &Signers) -> Ground {
        match signers {
            Signers::InForce(in_force) => ground(replica.org, in_force, &replica.heads),
            Signers::Frozen(frozen) => frozen_ground(replica.org, frozen, &replica.heads),
        }
    }

    /// Puts what operators signed where it is asked for. What enough of no set of signers have signed is nobody's.
    fn file(&mut self, digest: Digest, object: Envelope) {
        let org = Some(self.org);
        match object.kind() {
            Invite::KIND => {
                let invite: Option<Invite> = object.peek(org).ok().filter(Invite::is_well_formed);
                if let Some(invite) = invite.filter(|_| self.is_signed(&object)) {
                    self.invite_ids.entry(invite.id).or_default().insert(digest);
                    let record = InviteRecord::new(invite, object.clone());
                    self.invites.entry(digest).or_insert(record).envelope = object;
                }
            }
            BundleBody::KIND => {
                if let Ok(body) = object.peek::<BundleBody>(org) {
                    self.bundles.insert(digest, BundleRecord { body, envelope: object });
                }
            }
            Release::KIND => {
                if let Some(release) = object.peek::<Release>(org).ok().filter(|release| release.check().is_ok()) {
                    self.releases.insert(digest, ReleaseRecord { release, envelope: object });
                }
            }
            Waiver::KIND => {
                let waiver = object.peek::<Waiver>(org).ok();
                if waiver.is_some_and(|waiver| waiver.until.since(waiver.from) <= Waiver::LONGEST)
                    && self.is_signed(&object)
                {
                    self.waivers.insert(digest, object);
                }
            }
            Decision::KIND => {
                if let Ok(decision) = object.peek::<Decision>(org) {
                    let keys = self.signer_set().quorum.keys();
                    let words = self.decisions.entry(decision.about).or_default();
                    // Anybody can write the same in other bytes: what most of the signers in force signed stays.
                    let rank = |it: &Envelope| (Reverse(it.signers_among(&keys).len()), it.digest());
                    let known = words.get(&decision.verdict).filter(|known| known.digest() != digest);
                    if known.is_none_or(|known| rank(&object) < rank(known)) {
                        words.insert(decision.verdict, object);
                    }
                }
            }
            Consent::KIND => {
                let signed = !object.signers_among(&self.signer_set().quorum.keys()).is_empty();
                if let (true, Ok(consent)) = (signed, object.peek::<Consent>(org)) {
                    self.consents.entry(consent.node_key).or_default().insert(consent.manifest, object);
                }
            }
            Suspension::KIND => {
                if let Ok(suspension) = object.peek::<Suspension>(org) {
                    self.file_suspension(&suspension, &object);
                }
            }
            _ => {}
        }
    }

    /// By the threshold of any set that was ever in force: what former signers made is shown, and does not count.
    fn is_signed(&self, object: &Envelope) -> bool {
        let enough = |set: &SignerSet| object.signers_among(&set.quorum.keys()).len() >= set.quorum.threshold();
        self.signer_sets().any(enough)
    }

    fn file_suspension(&mut self, suspension: &Suspension, envelope: &Envelope) {
        // While two sets claim one place, nobody is suspended.
        if !suspend::is_sound(suspension) || self.is_frozen() {
            return;
        }
        for key in envelope.signers_among(&self.signer_set().quorum.keys()) {
            let signers = self.signer_set().quorum.signers().iter();
            let Some(by) = signers.clone().find(|it| it.key == key).map(|it| it.name.clone()) else { continue };
            let Suspension { at, until, reason, .. } = suspension.clone();
            let record = SuspensionRecord { by, at, until, reason, envelope: envelope.kept(&[key].into()) };
            let records = self.suspensions.entry(suspension.node_key).or_default();
            if !records.contains(&record) {
                records.push(record);
                records.sort_by_key(|record| (record.at, record.envelope.digest()));
            }
        }
    }

    fn count_uses(&mut self) {
        for record in self.invites.values_mut() {
            record.spent.clear();
            record.spent_at.clear();
            let voices = record.invite.rights.iter().map(|right| right.voice);
            record.closed = voices.filter(|voice| self.revocations.voices.contains(voice)).collect();
        }
        for ((voice, invite), keys) in &self.fold.spent {
            let Some(record) = self.invites.get_mut(invite) else { continue };
            record.spent.extend(keys.keys().map(|key| (*key, *voice)));
            record.spent_at.insert(*voice, u32::try_from(keys.len()).unwrap_or(u32::MAX));
        }
    }

    /// Every node key that a gateway let in, and how it stands.
    fn seat(&mut self) {
        let mut given: BTreeMap<Digest, Vec<AdmissionRecord>> = BTreeMap::new();
        let listed: BTreeSet<Digest> =
            self.leaves().into_iter().flat_map(BTreeMap::values).map(|leaf| leaf.admission).collect();
        for (voice, entries) in &self.replica.chains {
            // Nobody's voice lets nobody in.
            let Some(gateway) = self.voices.get(voice) else { continue };
            for written in entries.values() {
                if let Some(evidence) = written.evidence(listed.contains(&written.digest)) {
                    given.entry(evidence.key()).or_default().push(admission(written, evidence, gateway));
                }
            }
        }
        self.names.clear();
        let counting: BTreeMap<Digest, Digest> =
            self.fold.members.values().map(|admitted| (admitted.key, admitted.admission)).collect();
        let mut members = BTreeMap::new();
        for (key, mut admissions) in given {
            admissions.sort_by_key(|it| (counting.get(&key) != Some(&it.digest), it.digest));
            for it in &admissions {
                self.names.entry(it.claim.name.clone()).or_default().insert(key);
            }
            let mut admissions = admissions.into_iter();
            let Some(first) = admissions.next() else { continue };
            let member = self.member_of(first, admissions.collect(), counting.contains_key(&key));
            members.insert(key, member);
        }
        self.members = members;
    }

    pub(crate) fn member_of(
        &self,
        admission: AdmissionRecord,
        others: Vec<AdmissionRecord>,
        counts: bool,
    ) -> MemberRecord {
        let (claim, key) = (&admission.claim, admission.claim.node_key.digest());
        let ended = self.revocations.principals.iter().any(|it| it.node_name().as_ref() == Some(&claim.name));
        let left = self.fold.left.contains(&key);
        // The gateway's own node has nobody else to come back to.
        let founder = claim.authority == ClaimAuthority::Signers && claim.name == admission.gateway;
        let joined = self.fold.joined.contains(&key);
        let standing = match (left || ended || self.revocations.node_keys.contains(&key), counts) {
            (true, _) => Standing::Revoked,
            (false, false) => Standing::Waiting,
            (false, true) if founder || joined => Standing::Member,
            (false, true) => Standing::Issued,
        };
        let waits = |digest: Digest| self.fold.waiting.get(&digest).map(|waiting| waiting.why.clone());
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
