//! The ground (a policy snapshot): what everything here is judged by: the signer set in force, its head, and what was
//! taken back. Pure.

use std::collections::BTreeSet;

use identity::bundle::Domain;
use identity::envelope::Envelope;
use identity::head::{BadHead, Head, MOST_PREVIOUS, Mandate, Revocations, SignedHead, TrustLine, TrustState};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::signers::SignerSet;
use identity::trust;

use crate::ledger::heads::HeadRecord;
use crate::ledger::heads::{Heads, KnownHead};
use crate::ledger::signers::{Frozen, InForce};
use crate::ledger::step::Sets;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    pub org: OrgId,
    pub set: SignerSet,
    /// A head that none of these signed is nothing, whoever names it.
    pub sets: Sets,
    /// The head in force. Nothing if the set has signed none that is here, and the one that stands in is not here.
    pub head: Option<HeadRecord>,
    /// Lines of all heads of the set in force, and of those that the head in force reaches.
    pub revoked: Revocations,
    /// By the set in force, not reached: they only take away.
    pub rivals: Vec<HeadRecord>,
    /// Heads that the one in force reaches, and of whose lines it leaves out some that are not over.
    pub forgotten: Vec<HeadRecord>,
    /// Those of the rivals, and these, that take away what the head in force and the ones before them do not, as nodes are
    /// told them.
    pub takers: Vec<Digest>,
    /// The head in force, and all that it reaches through `previous`, as far as they are here.
    pub reached: BTreeSet<Digest>,
}

/// Which heads everything is judged by.
struct JudgedBy<'h> {
    top: Option<KnownHead<'h>>,
    rivals: Vec<KnownHead<'h>>,
    reached: BTreeSet<Digest>,
}

fn judged_by<'h>(in_force: &InForce, heads: &'h Heads, sets: &Sets) -> JudgedBy<'h> {
    judged_by_all(std::slice::from_ref(&in_force.set), in_force.stands_in, heads, sets)
}

/// By the heads of these sets.
fn judged_by_all<'h>(by: &[SignerSet], stands_in: Option<Digest>, heads: &'h Heads, sets: &Sets) -> JudgedBy<'h> {
    let own: Vec<KnownHead<'h>> = heads.all().filter(|head| by.iter().any(|set| head.is_of(set))).collect();
    let newest = own.iter().copied().max_by_key(|head| head.rank());
    // Until the set has signed a head, the one that its succession names stands in, and no other.
    let named = stands_in.and_then(|named| heads.held(&named)).filter(|named| named.is_signed(sets));
    let top = newest.or(named);
    let reached = heads.reach(top, sets);
    let rivals = own.into_iter().filter(|head| !reached.contains(&head.digest())).collect();
    JudgedBy { top, rivals, reached }
}

pub fn ground(org: OrgId, in_force: &InForce, heads: &Heads, sets: &Sets) -> Ground {
    ground_by(org, in_force.set.clone(), judged_by(in_force, heads, sets), heads, sets)
}

fn ground_by(org: OrgId, set: SignerSet, by: JudgedBy<'_>, heads: &Heads, sets: &Sets) -> Ground {
    let JudgedBy { top, rivals, reached } = by;
    let mut revoked = Revocations::default();
    for head in reached.iter().filter_map(|digest| heads.held(digest)).chain(rivals.iter().copied()) {
        revoked.absorb(head.lines());
    }
    let whole = |head: KnownHead<'_>| heads.get(&head.digest()).cloned();
    let mut rivals: Vec<HeadRecord> = rivals.into_iter().filter_map(whole).collect();
    rivals.sort_by_key(|record| std::cmp::Reverse(KnownHead::Whole(record).rank()));
    let head = top.and_then(whole);
    let forgotten = forgotten(head.as_ref(), &reached, heads).into_iter().filter_map(whole).collect::<Vec<_>>();
    let takers = takers(head.as_ref(), rivals.iter().chain(&forgotten));
    Ground { org, set, sets: sets.clone(), head, revoked, rivals, forgotten, takers, reached }
}

/// Heads of which the one in force lets lines fall, of each line the first that had it: whoever saw them goes by them all
/// the same.
fn forgotten<'h>(top: Option<&HeadRecord>, reached: &BTreeSet<Digest>, heads: &'h Heads) -> Vec<KnownHead<'h>> {
    let Some(top) = top else { return Vec::new() };
    let others = reached.iter().filter(|digest| **digest != top.digest).filter_map(|digest| heads.held(digest));
    let falls = |head: &KnownHead<'_>| !top.head.revocations.keeps(head.lines(), top.head.issued_at);
    let mut forgotten: Vec<KnownHead<'h>> = others.filter(falls).collect();
    forgotten.sort_by_key(|head| head.rank());
    let mut said = top.head.revocations.clone();
    forgotten.retain(|head| {
        let more = !said.keeps(head.lines(), top.head.issued_at);
        said.absorb(head.lines());
        more
    });
    forgotten.truncate(MOST_PREVIOUS);
    forgotten
}

/// Heads by which something is judged, and of which too little is here: whoever has them brings them back first.
pub(crate) fn wanting(in_force: &InForce, named: Option<Digest>, heads: &Heads, sets: &Sets) -> BTreeSet<Digest> {
    let within = named.and_then(|named| heads.held(&named)).map(|named| heads.within(&heads.reach(Some(named), sets)));
    let heads_then = within.as_ref().unwrap_or(heads);
    let JudgedBy { top, rivals, reached } = judged_by(in_force, heads_then, sets);
    let whole = top.and_then(|top| heads.get(&top.digest()));
    let forgotten = forgotten(whole, &reached, heads_then);
    let judged = top.into_iter().chain(rivals).chain(forgotten).map(KnownHead::digest);
    judged.filter(|digest| heads.get(digest).is_none()).collect()
}

/// The highest first: whoever carried on a rival says all that it said.
fn takers<'h>(top: Option<&HeadRecord>, others: impl Iterator<Item = &'h HeadRecord>) -> Vec<Digest> {
    let mut others = others.peekable();
    let Some(top) = top.filter(|_| others.peek().is_some()) else { return Vec::new() };
    let (mut revoked, mut lines, mut takers) = (top.head.revocations.clone(), top.head.trust.clone(), Vec::new());
    for rival in others {
        let left = taken_away(&lines, &rival.head.trust);
        if left != lines || !revoked.keeps(&rival.head.revocations, top.head.issued_at) {
            takers.push(rival.digest);
            revoked.absorb(&rival.head.revocations);
            lines = left;
        }
    }
    takers.truncate(MOST_PREVIOUS);
    takers
}

/// Whoever is frozen takes no head: what runs, runs by the one that the first rival names, and by what that reaches. If it
/// is not here, by what the last set signed. What the rival took away that was in force here alone stays away.
pub(crate) fn frozen_ground(org: OrgId, frozen: &Frozen, heads: &Heads, sets: &Sets) -> Ground {
    let mut ground = ground_at(org, &InForce::before(frozen), frozen.named, heads, sets);
    if let Some(set) = &frozen.stood {
        heads.all().filter(|head| head.is_of(set)).for_each(|head| ground.revoked.absorb(head.lines()));
    }
    ground
}

/// As it is once all who claim one place have signed this set together. Their heads are as if one set had signed them: the
/// highest stands in until this set has signed one, and the others take away. If there is none, what runs, runs on.
pub(crate) fn settled_ground(org: OrgId, frozen: &Frozen, set: &SignerSet, heads: &Heads, sets: &Sets) -> Ground {
    let all: Vec<SignerSet> = frozen.rivals.iter().chain([set]).cloned().collect();
    let runs = frozen_ground(org, frozen, heads, sets).head.map(|head| head.digest);
    ground_by(org, set.clone(), judged_by_all(&all, runs, heads, sets), heads, sets)
}

/// As it was when this head was in force: of others only what it reaches counts.
pub(crate) fn ground_at(org: OrgId, in_force: &InForce, named: Option<Digest>, heads: &Heads, sets: &Sets) -> Ground {
    match named.and_then(|named| heads.held(&named)) {
        Some(named) => ground(org, in_force, &heads.within(&heads.reach(Some(named), sets)), sets),
        None => ground(org, in_force, heads, sets),
    }
}

impl Ground {
    /// Every head that counts for something.
    pub(crate) fn counting<'g>(&'g self, heads: &'g Heads) -> impl Iterator<Item = KnownHead<'g>> {
        let reached = self.reached.iter().filter_map(|digest| heads.held(digest));
        reached.chain(self.rivals.iter().map(KnownHead::Whole))
    }

    /// Of whoever keeps one head alone, as nodes do: all that it knows was signed into that.
    pub fn alone(set: SignerSet, sets: Sets, head: HeadRecord) -> Self {
        let (revoked, reached) = (head.head.revocations.clone(), BTreeSet::from([head.digest]));
        let (rivals, forgotten, takers) = (Vec::new(), Vec::new(), Vec::new());
        Self { org: set.org, set, sets, head: Some(head), revoked, rivals, forgotten, takers, reached }
    }

    /// As if this head were in force, for operators who go round the one that is. What was taken back stays so.
    #[must_use]
    pub fn around(&self, top: &HeadRecord, heads: &Heads) -> Self {
        let (head, reached) = (Some(top.clone()), heads.reach(Some(KnownHead::Whole(top)), &self.sets));
        Self { head, reached, rivals: Vec::new(), takers: Vec::new(), ..self.clone() }
    }

    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref().map(|record| &record.head)
    }

    /// What whoever has the head in force alone lacks.
    pub fn takers(&self) -> impl Iterator<Item = &HeadRecord> {
        self.rivals.iter().chain(&self.forgotten).filter(|head| self.takers.contains(&head.digest))
    }

    /// Does the map of this head still show who is a member?
    pub fn shows(&self, head: Digest) -> bool {
        self.head.as_ref().is_some_and(|own| own.digest == head || own.head.recent.contains(&head))
    }

    /// Why a head that is named does not count: too few signed it.
    pub(crate) fn check_signed(&self, envelope: &Envelope, named: &Head) -> Result<(), BadHead> {
        let unknown = BadHead::OtherSigners { found: named.signers.version, known: self.set.version };
        let set = self.sets.get(&named.signers.id).ok_or(unknown)?;
        SignedHead::open(set, envelope).map(drop)
    }

    /// The mandate of a voice, unless it was closed, or over when the head was made.
    pub fn mandate(&self, voice: PublicKey) -> Option<&Mandate> {
        let head = self.head()?;
        let mandate = head.mandate_for_voice(voice).filter(|mandate| head.issued_at < mandate.not_after);
        mandate.filter(|_| !self.revoked.voices.contains(&voice))
    }

    /// What is so of trust: as the head in force says, and whatever a rival took away.
    pub fn trust(&self) -> Vec<TrustLine> {
        let own = self.head().map(|head| head.trust.clone()).unwrap_or_default();
        self.rivals.iter().fold(own, |lines, rival| taken_away(&lines, &rival.head.trust))
    }
}

/// A rival retires roots and adds none; only in a domain in which nothing would be left, what it has in use there takes their
/// place.
pub(super) fn taken_away(lines: &[TrustLine], told: &[TrustLine]) -> Vec<TrustLine> {
    [Domain::Endpoint, Domain::Identity].into_iter().fold(lines.to_vec(), |lines, domain| {
        let is_known = |line: &TrustLine| lines.iter().any(|it| it.is_same(line));
        let told: Vec<TrustLine> = trust::of(told, domain);
        let heeded = trust::heed(&lines, &told, false);
        let retires = |line: &&TrustLine| !line.state.is_trusted() && is_known(line);
        let is_heeded = |line: &TrustLine| heeded.iter().any(|it| it.is_same(line) && it.state == line.state);
        if told.iter().filter(retires).all(is_heeded) {
            return heeded;
        }
        let needed = |line: &TrustLine| is_known(line) || line.state == TrustState::Active;
        let needed: Vec<TrustLine> = told.into_iter().filter(needed).collect();
        trust::heed(&lines, &needed, true)
    })
}
