//! What somebody can make who has a gateway's voice, keys of signers who were replaced, the secrets of some invites, and, in one
//! cast, two recovery phrases.

use std::collections::{BTreeMap, BTreeSet};

use ground::{clock, random};
use identity::envelope::{Envelope, Payload as _};
use identity::head::{Cause, Head, Recorded};
use identity::id::{Digest, OrgId};
use identity::key::{EdKey, PublicKey, Sign as _};
use identity::principal::NodeName;
use identity::signers::{Quorum, Recovery, Signer, SignersRef, Succession};
use identity::time::{Seconds, Timestamp};
use org::founding::recovery_key;
use org::invite::admission::{Claim, ClaimAuthority, Leave};
use org::invite::approve::{Decision, Verdict, Waiver};
use org::invite::{Invite, Right, Uses};
use org::ledger::entry::{Action, Entry, SignedEntry, Stamp, Under};
use org::ledger::frontier::Tip;
use org::state::State;
use org::suspend::Suspension;
use trials::client::joiner::Joiner;
use trials::dice::Dice;

/// The keys, and who was let in with them.
pub struct Hand {
    pub org: OrgId,
    pub voice: EdKey,
    own: EdKey,
    /// Of signers who were removed.
    pub former: Vec<EdKey>,
    /// The set in which they signed.
    pub first: SignersRef,
    /// Enough for a recovery, or none.
    pub phrases: Vec<EdKey>,
    /// Of invites that were revoked, used up, are open for some names, or want a person's yes.
    pub codes: Vec<String>,
    /// Names that somebody holds.
    pub names: Vec<NodeName>,
    /// Machines of the liar's own, by the key's digest: the name that each claimed.
    pub made: BTreeMap<Digest, NodeName>,
    /// What it signed for them, and every entry that it made.
    claims: Vec<Digest>,
    pub written: BTreeSet<Digest>,
}

pub const KINDS: [&str; 9] = [
    Entry::KIND,
    Head::KIND,
    Succession::KIND,
    Suspension::KIND,
    Invite::KIND,
    Tip::KIND,
    Recovery::KIND,
    Decision::KIND,
    Waiver::KIND,
];

/// The key that is written down as these words.
pub fn key_of(phrase: &str) -> EdKey {
    let words: bip39::Mnemonic = phrase.parse().unwrap();
    recovery_key(&words.to_entropy().try_into().unwrap())
}

impl Hand {
    pub fn new(org: OrgId, voice: EdKey, (first, former): (SignersRef, Vec<EdKey>)) -> Self {
        Self {
            org,
            voice,
            own: EdKey::from_seed(&[7; 32]),
            former,
            first,
            phrases: Vec::new(),
            codes: Vec::new(),
            names: Vec::new(),
            made: BTreeMap::new(),
            claims: Vec::new(),
            written: BTreeSet::new(),
        }
    }

    /// Something of this kind; and if it goes on from the end of its own chain, the entry.
    pub fn make(&mut self, kind: &str, state: &State, dice: &mut Dice) -> Option<(Envelope, Option<SignedEntry>)> {
        Some(match kind {
            Entry::KIND => return self.entry(state, dice),
            Head::KIND => (self.head(state, dice)?, None),
            Succession::KIND => (self.succession(state, dice), None),
            Suspension::KIND => (self.suspension(state, dice)?, None),
            Invite::KIND => (self.invite(state, dice)?, None),
            Tip::KIND => (self.tip(state, dice), None),
            Recovery::KIND => (self.recovery(state, dice), None),
            Decision::KIND => (self.decision(state, dice)?, None),
            Waiver::KIND => (self.waiver(), None),
            _ => return None,
        })
    }

    fn by_former(&self, envelope: Envelope) -> Envelope {
        signed_by(envelope, &self.former)
    }

    /// Two entries at the place after this one.
    pub fn fork(&mut self, after: Option<Recorded>, state: &State) -> [Envelope; 2] {
        [1, 2].map(|branch| {
            let action = Action::NodeJoin { node_key: Digest([branch; 32]), name: "vps".parse().unwrap() };
            let about = Stamp { at: clock::now(), correlation: random::correlation().unwrap() };
            let signed = SignedEntry::write(self.org, after, &self.voice, state.under(), about, action).unwrap();
            self.written.insert(signed.digest);
            signed.envelope
        })
    }

    fn entry(&mut self, state: &State, dice: &mut Dice) -> Option<(Envelope, Option<SignedEntry>)> {
        let last = state.frontier.place_of(&self.voice.public());
        let action = self.action(state, dice)?;
        let chain = state.replica.chains.get(&self.voice.public());
        let earlier: Vec<Recorded> = chain.into_iter().flatten().map(|(_, written)| written.place()).collect();
        let goes_on = dice.percent(50);
        let after = match dice.below(4) {
            _ if goes_on => last,
            // Another one at a place that is taken.
            0 | 1 => dice.choose(&earlier).copied(),
            2 => Some(Recorded { seq: dice.pick([9, 4_000, 1 << 40, u64::MAX]), digest: some_digest(dice) }),
            _ => None,
        };
        let under =
            if dice.percent(60) { state.under() } else { Under { version: dice.next(), digest: some_digest(dice) } };
        let about = Stamp { at: some_time(dice), correlation: random::correlation().unwrap() };
        let signed = SignedEntry::write(self.org, after, &self.voice, under, about, action).ok()?;
        self.written.insert(signed.digest);
        Some((signed.envelope.clone(), goes_on.then_some(signed)))
    }

    fn action(&mut self, state: &State, dice: &mut Dice) -> Option<Action> {
        let name = self.some_name(dice);
        Some(match dice.below(7) {
            0..=2 => self.admit(state, &name, dice)?,
            3 => Action::NodeJoin { node_key: some_digest(dice), name },
            4 => {
                let leave = Leave { node_key: some_key(state, dice)?, at: clock::now() };
                let leave = Envelope::seal(Some(self.org), &leave).unwrap().signed(&self.voice).unwrap();
                Action::NodeLeave { leave, name }
            }
            _ => {
                let kind = dice.pick(KINDS);
                if [Entry::KIND, Tip::KIND].contains(&kind) {
                    return None;
                }
                Action::Take { envelope: self.make(kind, state, dice)?.0 }
            }
        })
    }

    /// Lets a machine of its own in, under whatever it has.
    fn admit(&mut self, state: &State, name: &NodeName, dice: &mut Dice) -> Option<Action> {
        let code = dice.choose(&self.codes)?.clone();
        let name = match dice.below(10) {
            0..4 => format!("loose-{}", dice.below(6)),
            4..6 => format!("door-{}", dice.below(6)),
            _ => name.to_string(),
        };
        let joiner = Joiner::new(&code, &name);
        self.made.insert(joiner.node_key.public().digest(), joiner.name.clone());
        if dice.percent(20) {
            // The word of signers who are none any more.
            let until = Some(clock::now() + Seconds::DAY);
            let claim = Claim { authority: ClaimAuthority::Signers, until, ..joiner.claim() };
            let claim = Envelope::seal(Some(self.org), &claim).unwrap().signed(&joiner.node_key).unwrap();
            return Some(Action::NodeAdmit { claim: self.by_former(claim), invite: None, approval: None });
        }
        let invite = state.invite(joiner.code.ticket.authority().invite()?).map(|(_, record)| record.envelope.clone());
        let claim = joiner.signed_claim();
        self.claims.push(claim.digest());
        let approval = match dice.below(3) {
            0 => None,
            1 => Some(self.waiver()),
            _ => Some(self.verdict(claim.digest(), Verdict::Approve)),
        };
        Some(Action::NodeAdmit { claim, invite, approval })
    }

    fn head(&self, state: &State, dice: &mut Dice) -> Option<Envelope> {
        let mut heads: Vec<_> = state.replica.heads.values().collect();
        heads.extend(state.head());
        let from = dice.choose(&heads)?;
        let mut head = from.head.clone();
        head.version = dice.pick([head.version, head.version + 1, head.version + 1, head.version + 1_000, u64::MAX]);
        head.previous = vec![from.digest];
        let some_time = some_time(dice);
        head.issued_at = dice.pick([clock::now(), head.issued_at, some_time]);
        head.signers = dice.pick([head.signers, self.first]);
        let victim = some_key(state, dice)?.digest();
        match dice.below(6) {
            0 => drop(head.revocations.node_keys.insert(victim)),
            1 => head.revocations = identity::head::Revocations::default(),
            2 => head.members = Some(some_digest(dice)),
            3 => head.mandates.retain(|mandate| mandate.voice == self.voice.public()),
            4 => head.record = [(self.voice.public(), Recorded { seq: u64::MAX, digest: some_digest(dice) })].into(),
            _ => head.trust.clear(),
        }
        head.cause = Cause::NodeRevoke { node_key: victim, name: self.some_name(dice) };
        let sealed = Envelope::seal(Some(self.org), &head).ok()?;
        Some(match dice.below(5) {
            0 => sealed,
            1 => sealed.signed(&self.voice).unwrap(),
            _ => self.by_former(sealed),
        })
    }

    /// A signer key that was removed never returns, so it also has one that nobody knows.
    fn quorum(&self, dice: &mut Dice) -> Quorum {
        let (name, key) = if dice.percent(60) { ("eve", &self.own) } else { ("eva", &self.former[0]) };
        Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key.public() }]).unwrap()
    }

    fn succession(&self, state: &State, dice: &mut Dice) -> Envelope {
        let current = state.head().map_or(self.first, |record| record.head.signers);
        let follows = dice.pick([self.first, self.first, current]);
        let version = dice.pick([follows.version + 1, follows.version + 1, current.version + 7, u64::MAX]);
        let head = state.head().map(|record| record.digest).filter(|_| dice.percent(70));
        let step = Succession { version, previous: follows.id, also: Vec::new(), quorum: self.quorum(dice), head };
        self.by_former(Envelope::seal(Some(self.org), &step).unwrap())
    }

    fn recovery(&self, state: &State, dice: &mut Dice) -> Envelope {
        let current = state.head().map_or(self.first, |record| record.head.signers);
        let (version, previous) = (current.version + 1, current.id);
        let (head, at, settles) = (state.head().map(|record| record.digest), some_time(dice), dice.percent(50));
        let step = Recovery { version, previous, quorum: self.quorum(dice), head, settles, at };
        let step = self.by_former(Envelope::seal(Some(self.org), &step).unwrap());
        signed_by(step, &self.phrases[dice.below(self.phrases.len()).min(1)..])
    }

    /// A yes or a no to a machine of its own, or to whatever somebody wrote.
    fn decision(&self, state: &State, dice: &mut Dice) -> Option<Envelope> {
        let written = state.replica.chains.values().flat_map(BTreeMap::keys);
        let about: Vec<Digest> = self.claims.iter().chain(written).copied().collect();
        Some(self.verdict(*dice.choose(&about)?, dice.pick([Verdict::Approve, Verdict::Approve, Verdict::Deny])))
    }

    fn verdict(&self, about: Digest, verdict: Verdict) -> Envelope {
        let until = Some(clock::now() + Seconds::DAY);
        self.by_former(Envelope::seal(Some(self.org), &Decision { about, verdict, until }).unwrap())
    }

    fn waiver(&self) -> Envelope {
        let (from, until) = (clock::now() - Seconds::DAY, clock::now() + Seconds::DAY);
        let names = vec!["*".parse().unwrap()];
        self.by_former(Envelope::seal(Some(self.org), &Waiver { names, from, until }).unwrap())
    }

    fn suspension(&self, state: &State, dice: &mut Dice) -> Option<Envelope> {
        let (at, name) = (clock::now(), self.some_name(dice));
        let node_key = some_key(state, dice)?.digest();
        let until = at + dice.pick([Seconds::HOUR, Seconds::DAY, Seconds::DAY.times(400)]);
        let body = Suspension { node_key, name, at, until, reason: "\u{1b}[2Jno".to_owned() };
        Some(self.by_former(Envelope::seal(Some(self.org), &body).unwrap()))
    }

    /// For an invite of which the secret is here, as the former signer would have it.
    fn invite(&self, state: &State, dice: &mut Dice) -> Option<Envelope> {
        let code: org::invite::code::InviteCode = dice.choose(&self.codes)?.parse().unwrap();
        let mut invite: Invite = state.invite(code.ticket.authority().invite()?)?.1.invite.clone();
        let gateway = "vps".parse().unwrap();
        invite.rights = vec![Right { gateway, voice: self.voice.public(), uses: Uses::Unlimited }];
        invite.names = vec!["*".parse().unwrap()];
        Some(self.by_former(Envelope::seal(Some(self.org), &invite).unwrap()))
    }

    fn tip(&self, state: &State, dice: &mut Dice) -> Envelope {
        let (voice, here) = (self.voice.public(), state.frontier.place_of(&self.voice.public()));
        let seq = here.map_or(1, |here| here.seq);
        let seq = dice.pick([seq, seq.saturating_sub(3), seq + 1, seq + 1_000, u64::MAX, 0]);
        let place = Recorded { seq, digest: here.map_or_else(|| some_digest(dice), |here| here.digest) };
        let place = if dice.percent(50) { place } else { Recorded { digest: some_digest(dice), ..place } };
        let tip = Tip { voice, place, at: some_time(dice) };
        Envelope::seal(Some(self.org), &tip).unwrap().signed(&self.voice).unwrap()
    }

    fn some_name(&self, dice: &mut Dice) -> NodeName {
        let free = format!("web-{}", 40 + dice.below(9)).parse().unwrap();
        if dice.percent(60) { dice.choose(&self.names).cloned().unwrap_or(free) } else { free }
    }
}

fn signed_by(mut envelope: Envelope, keys: &[EdKey]) -> Envelope {
    for key in keys {
        envelope.sign(key).unwrap();
    }
    envelope
}

fn some_key(state: &State, dice: &mut Dice) -> Option<PublicKey> {
    let members: Vec<PublicKey> = state.members.values().map(|member| member.claim().node_key).collect();
    dice.choose(&members).copied()
}

fn some_digest(dice: &mut Dice) -> Digest {
    Digest::of(&dice.next().to_le_bytes())
}

fn some_time(dice: &mut Dice) -> Timestamp {
    let now = clock::now();
    let year = Seconds::DAY.times(365);
    dice.pick([now, now, now + year, now - year, now - Seconds::DAY, Timestamp::from_unix(0)])
}
