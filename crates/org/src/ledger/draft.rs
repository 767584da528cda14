//! The next head, as an honest tool makes it from its own fold: what its maker owes to everybody who will follow it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Head, KeyMark, MOST_PREVIOUS, MOST_RECENT, RECENT, Recorded, TrustLine, TrustState};
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::members::{ClassLeaf, Doubled, Leaf, Meant, MembersMap, NodeLeaf};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use identity::trust;

use crate::invite::{Invite, InviteKind};
use crate::ledger::chain::Chain;
use crate::ledger::counts::counts_within;
use crate::ledger::evidence::Evidence;
use crate::ledger::fold::{Leaves, Projection, Why};
use crate::ledger::ground::{Ground, taken_away};
use crate::ledger::heads::HeadRecord;
use crate::ledger::heads::KnownHead;
use crate::ledger::onward::{Recent, leads_on};
use crate::ledger::replica::Replica;
use crate::ledger::signers::Frozen;

/// What is to change; nothing: only the record and the time.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub revoke_keys: Vec<Digest>,
    pub revoke_invites: Vec<InviteId>,
    /// Admissions that are listed although they wait, by the entry's digest.
    pub list: Vec<Digest>,
    /// Follow this head instead of the one in force, and take no rival in: so operators go round a bad one.
    pub around: Option<Digest>,
}

/// What listed machines are meant to be, as a fleet says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Of those with a manifest of their own. Others are what their class is, or nothing.
    pub own: BTreeMap<NodeName, Digest>,
    pub classes: Vec<ClassLeaf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub head: Head,
    pub leaves: Leaves,
    pub classes: Vec<ClassLeaf>,
    /// What becomes of each admission that the record passes.
    pub passed: BTreeMap<Digest, Fate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Leaf,
    Revoked,
    Waits,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDrafted {
    #[error("two signer sets claim one place: nothing is signed until that is settled")]
    Frozen(Box<Frozen>),
    #[error("no head is in force here to follow")]
    NoHead,
    #[error("the members' map of the head in force is not here")]
    NoMap,
    #[error("no number is left under this signer set: change the signers")]
    Exhausted,
    #[error(transparent)]
    Doubled(#[from] Doubled),
}

impl Draft {
    /// The whole map.
    pub fn map(&self) -> Vec<Leaf> {
        let classes = self.classes.iter().cloned().map(Leaf::Class);
        classes.chain(self.leaves.values().cloned().map(Leaf::Node)).collect()
    }
}

/// What the next head is to change. Without a meaning, everybody is meant to be what they were.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    pub wish: &'a Wish,
    pub meaning: Option<&'a Meaning>,
}

/// The next head, by whoever has judged what is here, with whatever else is to change in it.
pub fn draft_on(
    replica: &Replica,
    ground: &Ground,
    state: &Projection,
    now: Timestamp,
    intent: Intent<'_>,
    change: impl FnOnce(&mut Head),
) -> Result<Draft, NotDrafted> {
    let Some(around) = intent.wish.around else {
        let top = ground.head.as_ref().ok_or(NotDrafted::NoHead)?;
        let mut drafter = Drafter { replica, ground, state, top, rivals: Vec::new(), left: Vec::new() };
        let rivals = ground.rivals.iter().filter(|rival| drafter.can_record(rival));
        drafter.rivals = rivals.take(MOST_PREVIOUS - 1).collect();
        return drafter.draft(now, intent, change);
    };
    let top = replica.heads.get(&around).ok_or(NotDrafted::NoHead)?;
    // Whom the head that is gone round let in by its own mandates is not taken over.
    let instead = ground.around(top, &replica.heads);
    let left = ground.head.iter().chain(&ground.rivals).filter(|it| !instead.reached.contains(&it.digest)).collect();
    let state = replica.fold(&instead);
    let drafter = Drafter { replica, ground: &instead, state: &state, top, rivals: Vec::new(), left };
    drafter.draft(now, intent, change)
}

/// What lies before the maker.
struct Drafter<'a> {
    replica: &'a Replica,
    ground: &'a Ground,
    state: &'a Projection,
    top: &'a HeadRecord,
    rivals: Vec<&'a HeadRecord>,
    /// The heads that operators go round: the one in force, and rivals that the followed one does not reach.
    left: Vec<&'a HeadRecord>,
}

impl Meaning {
    /// As a map says.
    pub fn of_map(leaves: &Leaves, classes: Vec<ClassLeaf>) -> Self {
        let own = |leaf: &NodeLeaf| match &leaf.manifest {
            Meant::Own(manifest) => Some((leaf.name.clone(), *manifest)),
            Meant::Class(_) | Meant::Nothing => None,
        };
        Self { own: leaves.values().filter_map(own).collect(), classes }
    }

    pub fn of(&self, name: &NodeName) -> Meant {
        let class =
            || self.classes.iter().find(|class| class.covers(name)).map(|class| Meant::Class(class.class.clone()));
        let own = self.own.get(name).copied().map(Meant::Own);
        own.or_else(class).unwrap_or(Meant::Nothing)
    }
}

impl Drafter<'_> {
    fn draft(
        &self,
        now: Timestamp,
        Intent { wish, meaning }: Intent<'_>,
        change: impl FnOnce(&mut Head),
    ) -> Result<Draft, NotDrafted> {
        let mut head = self.top.head.clone();
        head.version = self.next_version()?;
        head.signers = self.ground.set.as_ref();
        head.previous = std::iter::once(self.top.digest).chain(self.rivals.iter().map(|rival| rival.digest)).collect();
        head.reverts = None;
        let span = self.top.head.fresh_until.since(self.top.head.issued_at);
        // A slow clock dates nothing back.
        let dated = self.rivals.iter().map(|rival| rival.head.issued_at).chain([self.top.head.issued_at]);
        head.issued_at = dated.max().map_or(now, |latest| latest.max(now));
        head.fresh_until = head.issued_at + span;
        head.trust = self.trust();
        self.take_back(&mut head, wish, span);
        change(&mut head);
        self.close(&mut head);
        // As long as an invite may have been over: by this head, too.
        let span = span.max(head.fresh_until.since(head.issued_at));
        let mut leaves = self.leaves(&head, wish)?;
        let meaning = meaning.map_or_else(|| Cow::Owned(self.meaning()), Cow::Borrowed);
        for leaf in leaves.values_mut() {
            leaf.manifest = meaning.of(&leaf.name);
        }
        head.recent = self.recent(head.issued_at, &leaves);
        self.end_losers(&mut head, &leaves, span);
        self.drop_over(&mut head, span);
        head.record = self.record(&head);
        let passed = self.passed(&head, &leaves);
        let mut draft = Draft { head, leaves, classes: meaning.into_owned().classes, passed };
        draft.head.members = Some(MembersMap::of(&draft.map())?.root());
        Ok(draft)
    }

    /// As the followed head says.
    fn meaning(&self) -> Meaning {
        let (leaves, none) = (self.map_of(KnownHead::Whole(self.top)), Leaves::new());
        let classes = self.top.head.members.and_then(|root| self.replica.classes.get(&root));
        Meaning::of_map(leaves.unwrap_or(&none), classes.cloned().unwrap_or_default())
    }

    /// Above the head in force, also where another is followed.
    fn next_version(&self) -> Result<u64, NotDrafted> {
        let own = |record: &&HeadRecord| record.head.signers == self.ground.set.as_ref();
        let others = self.left.iter().copied().chain(&self.ground.head);
        let in_force = others.filter(own).map(|record| record.head.version).max();
        match in_force.max(Some(self.top.head.version)).and_then(|last| last.checked_add(1)) {
            Some(next) => Ok(next),
            None if in_force.is_some() => Err(NotDrafted::Exhausted),
            // Under another set the order begins anew.
            None => Ok(1),
        }
    }

    /// As the followed head has it, and whatever others took away: no root comes from a head that operators go round. That it
    /// brought one stays on record, as retired.
    fn trust(&self) -> Vec<TrustLine> {
        let others = self.left.iter().copied().chain(&self.ground.rivals);
        let lines = others.fold(self.top.head.trust.clone(), |lines, other| taken_away(&lines, &other.head.trust));
        let mut all = lines.clone();
        for line in self.left.iter().flat_map(|it| &it.head.trust) {
            let told = all.iter().any(|it| it.domain == line.domain) && !all.iter().any(|it| it.is_same(line));
            all.extend(told.then(|| TrustLine { state: TrustState::Retired, ..line.clone() }));
        }
        if trust::is_sound(&all) { all } else { lines }
    }

    /// Heads whose time is not over, and which show no key under a name that it has no longer. Where no key has another name
    /// than in the followed map, what that head named stays; else only heads whose maps are here can tell.
    fn recent(&self, issued_at: Timestamp, now: &Leaves) -> Vec<Digest> {
        let recent = Recent::of(self.replica, &self.ground.sets, issued_at, now);
        let unmoved = recent.keeps_names(KnownHead::Whole(self.top)) == Some(true);
        let heads = std::iter::once(self.top.digest).chain(self.top.head.recent.iter().copied());
        let counts = |digest: &Digest| {
            self.replica.heads.held(digest).is_some_and(|head| recent.may_name(head).unwrap_or(unmoved))
        };
        heads.filter(counts).take(MOST_RECENT).collect()
    }

    fn map_of(&self, head: KnownHead<'_>) -> Option<&Leaves> {
        self.replica.maps.get(&head.members()?)
    }

    /// Everything that the ground has, and what is to be revoked now.
    fn take_back(&self, head: &mut Head, wish: &Wish, span: Seconds) {
        head.revocations = self.ground.revoked.clone();
        let until = self.longest(head.issued_at, span);
        for key in &wish.revoke_keys {
            head.revocations.node_keys.insert_until(*key, until);
        }
        for invite in &wish.revoke_invites {
            match self.invites().filter(|known| known.id == *invite).map(|known| known.expires_at).max() {
                Some(last) => head.revocations.invites.insert_until(*invite, last + span + RECENT),
                None => drop(head.revocations.invites.insert(*invite)),
            }
        }
    }

    /// From then on nothing that is known here could let a key in again.
    fn longest(&self, issued_at: Timestamp, span: Seconds) -> Timestamp {
        let last = self.invites().map(|invite| invite.expires_at + span).max();
        last.map_or(issued_at + RECENT, |last| last.max(issued_at + RECENT))
    }

    fn invites(&self) -> impl Iterator<Item = Invite> {
        let org = self.replica.org;
        self.replica.objects.values().filter_map(move |object| object.peek::<Invite>(Some(org)).ok())
    }

    /// A voice that is not mandated any more never returns, whichever head names it.
    fn close(&self, head: &mut Head) {
        let kept: BTreeSet<PublicKey> = head.mandates.iter().map(|mandate| mandate.voice).collect();
        let before = self.left.iter().copied().chain([self.top]).flat_map(|it| &it.head.mandates);
        let ended = before.map(|mandate| mandate.voice).filter(|voice| !kept.contains(voice));
        head.revocations.voices.extend(ended);
        let closed = &head.revocations.voices;
        head.mandates.retain(|mandate| !closed.contains(&mandate.voice));
    }

    /// Whom the followed head lists, then rivals, then the fold; last, whom the operators choose.
    fn leaves(&self, head: &Head, wish: &Wish) -> Result<Leaves, NotDrafted> {
        let none = Leaves::new();
        let own = match (self.top.head.members, self.map_of(KnownHead::Whole(self.top))) {
            (None, _) => &none,
            (Some(_), Some(leaves)) => leaves,
            (Some(_), None) => return Err(NotDrafted::NoMap),
        };
        let lives = |key: &Digest| !head.revocations.node_keys.contains(key) && !self.state.left.contains(key);
        let (mut leaves, mut keys) = (Leaves::new(), BTreeSet::new());
        let add = |leaves: &mut Leaves, keys: &mut BTreeSet<Digest>, leaf: &NodeLeaf| {
            let free = !leaves.contains_key(&leaf.name) && !keys.contains(&leaf.node_key);
            if lives(&leaf.node_key) && free {
                keys.insert(leaf.node_key);
                leaves.insert(leaf.name.clone(), leaf.clone());
            }
        };
        let rivals =
            self.rivals.iter().filter_map(|rival| self.map_of(KnownHead::Whole(rival))).flat_map(BTreeMap::values);
        own.values().chain(rivals).for_each(|leaf| add(&mut leaves, &mut keys, leaf));
        for (name, it) in &self.state.handed {
            if lives(&it.key) && !keys.contains(&it.key) {
                if let Some(before) = leaves.insert(name.clone(), leaf(name, it.key, it.admission)) {
                    keys.remove(&before.node_key);
                }
                keys.insert(it.key);
            }
        }
        for (name, it) in &self.state.members {
            add(&mut leaves, &mut keys, &leaf(name, it.key, it.admission));
        }
        for (name, it) in self.uncontested(head).iter().flat_map(|state| &state.members) {
            add(&mut leaves, &mut keys, &leaf(name, it.key, it.admission));
        }
        for evidence in wish.list.iter().filter_map(|digest| self.evidence(*digest)) {
            if lives(&evidence.key()) {
                leaves.retain(|_, it| it.node_key != evidence.key());
                leaves.insert(evidence.claim.name.clone(), leaf(&evidence.claim.name, evidence.key(), evidence.digest));
            }
        }
        Ok(leaves)
    }

    /// What is so once this head closes and revokes, if that may end a contest for a name: the record passes all who wait, and
    /// whom nobody contests any more would wait for ever.
    fn uncontested(&self, head: &Head) -> Option<Projection> {
        let changes = head.revocations != self.ground.revoked || head.mandates != self.top.head.mandates;
        let contested = self.state.waiting.values().any(|waiting| waiting.why == Why::Contested);
        let above = || {
            let mut ground = self.ground.clone();
            ground.revoked.absorb(&head.revocations);
            let record = ground.head.as_mut()?;
            record.head.mandates.clone_from(&head.mandates);
            Some(self.replica.fold(&ground))
        };
        if changes && contested { above() } else { None }
    }

    fn evidence(&self, digest: Digest) -> Option<Evidence> {
        let written = self.replica.chains.values().find_map(|entries| entries.get(&digest))?;
        written.checked().cloned()
    }

    /// Whoever's key loses its last leaf gets a line; so does who was let in and left before it had one.
    fn end_losers(&self, head: &mut Head, leaves: &Leaves, span: Seconds) {
        let until = self.longest(head.issued_at, span);
        let kept: BTreeSet<Digest> = leaves.values().map(|leaf| leaf.node_key).collect();
        let before = self.rivals.iter().chain(&self.left).copied().chain([self.top]);
        let before = before.filter_map(|it| self.map_of(KnownHead::Whole(it)));
        let before: BTreeSet<Digest> = before.flat_map(BTreeMap::values).map(|leaf| leaf.node_key).collect();
        let entries = self.replica.chains.values().flat_map(BTreeMap::values);
        let left = entries
            .filter_map(|written| written.evidence(true))
            .map(Evidence::key)
            .filter(|key| self.state.left.contains(key));
        let before: BTreeSet<Digest> = before.into_iter().chain(left).collect();
        for key in before.union(&self.listed_by(&head.recent)).filter(|key| !kept.contains(key)) {
            if !head.revocations.node_keys.contains(key) {
                head.revocations.node_keys.insert_until(*key, until);
            }
        }
    }

    fn listed_by(&self, heads: &[Digest]) -> BTreeSet<Digest> {
        let heads = heads.iter().filter_map(|digest| self.replica.heads.held(digest));
        let leaves = heads.filter_map(|head| self.map_of(head)).flat_map(BTreeMap::values);
        leaves.map(|leaf| leaf.node_key).collect()
    }

    /// A line goes when it is over, nothing that counts could let the key in again, and no recent head lists it. Whoever has
    /// the secret of an invite that was made since needs no key of old.
    fn drop_over(&self, head: &mut Head, span: Seconds) {
        let listed = self.listed_by(&head.recent);
        let lives = |until: Timestamp| head.issued_at < until;
        let open = self.replica.objects.values().filter_map(|object| {
            let open = |invite: &Invite| lives(invite.expires_at + span);
            let peeked: Invite = object.peek(Some(self.replica.org)).ok().filter(open)?;
            counts_within::<Invite>(object, self.ground, span).is_ok().then_some(peeked)
        });
        // One that names a machine's key lets in that one alone, whenever it was made.
        let (named, open): (Vec<Invite>, Vec<Invite>) = open.partition(|invite| invite.kind == InviteKind::Machine);
        let named = named.iter().filter_map(|invite| invite.key).map(|key| key.digest());
        let oldest = open.iter().map(|invite| invite.created_at).min();
        let since = if oldest.is_some() { self.revoked_since() } else { BTreeMap::new() };
        let earlier = |key: &KeyMark| oldest.is_some_and(|made| since.get(key).is_none_or(|since| made <= *since));
        let entries = self.replica.chains.values().flat_map(BTreeMap::values);
        // A line that stands longer harms nobody: who signed these claims need not be asked.
        let claims = entries.filter_map(|written| written.evidence(true));
        let claimed: BTreeSet<Digest> =
            claims.filter(|it| it.claim.until.is_some_and(lives)).map(Evidence::key).collect();
        let needed: BTreeSet<KeyMark> =
            listed.into_iter().chain(claimed).chain(named).map(|key| KeyMark::of(&key)).collect();
        let needed = |key: &KeyMark| earlier(key) || needed.contains(key);
        head.revocations.node_keys.drop_over(head.issued_at, needed);
        head.revocations.invites.drop_over(head.issued_at, |_| false);
    }

    /// The first head here that took a key back, by its time.
    fn revoked_since(&self) -> BTreeMap<KeyMark, Timestamp> {
        let mut since = BTreeMap::new();
        for head in self.ground.reached.iter().filter_map(|digest| self.replica.heads.held(digest)) {
            for mark in head.lines().node_keys.marks() {
                let first = since.entry(*mark).or_insert_with(|| head.issued_at());
                *first = head.issued_at().min(*first);
            }
        }
        since
    }

    /// Is everything here that this rival recorded beyond the followed head? Who names it lets no record fall.
    fn can_record(&self, rival: &HeadRecord) -> bool {
        rival.head.record.iter().all(|(voice, at)| {
            let own = self.top.head.record.get(voice).map_or(0, |own| own.seq);
            at.seq <= own || self.replica.chains.get(voice).is_some_and(|entries| entries.contains_key(&at.digest))
        })
    }

    /// Not below any head that it follows, and as far as each chain links here.
    fn record(&self, head: &Head) -> BTreeMap<PublicKey, Recorded> {
        let mut record = self.top.head.record.clone();
        for (voice, at) in self.rivals.iter().flat_map(|rival| &rival.head.record) {
            let known = record.get(voice).copied();
            let higher = known.is_none_or(|known| at.seq > known.seq);
            if higher && leads_on(self.replica, *voice, *at, known) == Some(true) {
                record.insert(*voice, *at);
            }
        }
        for mandate in &head.mandates {
            let known = record.get(&mandate.voice).copied();
            let chain = self.replica.chains.get(&mandate.voice).map(|entries| Chain::of(entries, known));
            if let Some(end) = chain.and_then(|chain| chain.end(known)) {
                record.insert(mandate.voice, end);
            }
        }
        record
    }

    fn passed(&self, head: &Head, leaves: &Leaves) -> BTreeMap<Digest, Fate> {
        let mut passed = BTreeMap::new();
        for (voice, entries) in &self.replica.chains {
            let from = self.top.head.record.get(voice).map_or(0, |it| it.seq);
            let recorded = Chain::of(entries, head.record.get(voice).copied()).recorded;
            for written in recorded.into_iter().filter(|written| written.seq > from) {
                let Some(evidence) = written.checked() else { continue };
                let listed = leaves.get(&evidence.claim.name).is_some_and(|leaf| leaf.node_key == evidence.key());
                let fate = match listed {
                    true => Fate::Leaf,
                    false if head.revocations.node_keys.contains(&evidence.key()) => Fate::Revoked,
                    false => Fate::Waits,
                };
                passed.insert(written.digest, fate);
            }
        }
        passed
    }
}

/// Its manifest is the fleet's to say.
fn leaf(name: &NodeName, node_key: Digest, admission: Digest) -> NodeLeaf {
    NodeLeaf { name: name.clone(), node_key, admission, manifest: Meant::Nothing }
}
