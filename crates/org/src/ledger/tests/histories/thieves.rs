//! What thieves do in a history: they make things for their drawer, and release each to whom and when they like.

use identity::envelope::Envelope;
use identity::envelope::Payload as _;
use identity::head::Revocations;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::signers::{Recovery, Succession};
use identity::time::{Seconds, Timestamp};

use super::acts::{NAMES, asking};
use super::words::suspension;
use super::{Dice, History, Theft, names, short};
use crate::invite::admission::{Claim, ClaimAuthority, Leave};
use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::invite::{Approval, Invite};
use crate::ledger::entry::{Action, Entry, SignedEntry, Under};
use crate::ledger::evidence::Evidence;
use crate::ledger::fold::Leaves;
use crate::ledger::heads::HeadRecord;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{hear, holdings};
use crate::ledger::tests::world::{
    DELAY, GATEWAYS, Says, Sent, claim, day, invite, junk, key, leaf, machine, mandate, node, voice,
};

impl History {
    fn keep(&mut self, sent: Sent, told: &str) {
        self.say(&format!("thieves make {told} ({})", short(sent.digest())));
        self.forged.insert(sent.digest());
        self.drawer.push(sent);
    }

    /// A head by a replaced set, or by the set in force if they can speak for it.
    pub(super) fn forge_head(&mut self, dice: &mut Dice) {
        let sets: Vec<_> = self.truth.iter().filter(|set| self.thieves_speak_for(set)).cloned().collect();
        let Some(set) = dice.choose(&sets) else { return };
        let source = &self.replicas[self.any(dice)].1;
        let Some(base) = source.heads.values().max_by_key(|it| (it.head.version, it.digest)) else { return };
        let map = base.head.members.and_then(|root| source.maps.get(&root)).cloned();
        let base = Sent { envelope: base.envelope.clone(), map };
        let by: Vec<String> = names(&set.quorum).into_iter().filter(|name| self.stolen.contains(name)).collect();
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let (name, lines, jump) = (dice.pick(&NAMES), dice.below(3), dice.below(4));
        let thief = self.fresh("e");
        let (issued_at, fresh_until) = (self.date(dice), self.date(dice));
        let forged = self.org.forged(&base, &by, |head, leaves| {
            (head.issued_at, head.fresh_until) = (issued_at, fresh_until);
            head.version =
                [head.version, head.version.saturating_add(1), 500, u64::MAX][usize::try_from(jump).unwrap()];
            head.signers = set.as_ref();
            head.mandates = GATEWAYS.map(|name| mandate(name, name)).to_vec();
            leaves.retain(|_, leaf| leaf.node_key != key(&thief));
            leaves.insert(node(name), leaf(name, &thief));
            match lines {
                0 => head.revocations = Revocations::default(),
                1 => drop(head.revocations.node_keys.insert(key("ka"))),
                _ => {}
            }
        });
        let version = self.org.body(&forged).version;
        self.keep(forged, &format!("head {version} of set {} with {thief} as `{name}`", set.version));
    }

    pub(super) fn forge_step(&mut self, dice: &mut Dice) {
        let (thief, at) = (self.fresh("eve"), self.date(dice));
        let head = self.org.first.digest();
        if dice.below(5) == 0 {
            return self.forge_unsigned_step(&thief, dice);
        }
        let own: Vec<_> = self.truth.iter().filter(|set| self.thieves_speak_for(set)).cloned().collect();
        let in_force = self.truth.last().cloned();
        let replaced: Vec<_> =
            own.into_iter().filter(|set| Some(set) != in_force.as_ref() || self.cast.theft == Theft::Signer).collect();
        if self.cast.theft == Theft::Phrases && dice.below(2) == 0 {
            let Some(from) = dice.choose(&self.truth).cloned() else { return };
            let settles = dice.below(3) == 0;
            let to = self.org.later(from.version + 1 + u64::from(settles), 1, &[&thief]);
            let (version, previous, quorum) = (to.version, from.id, to.quorum);
            let body = Recovery { version, previous, quorum, head: Some(head), settles, at };
            let sent = self.org.seal(&body, &["phrase-1", "phrase-2"]);
            self.keep(sent.into(), &format!("a recovery of set {} to {thief}, dated {at}", from.version));
            return;
        }
        let Some(from) = dice.choose(&replaced) else { return };
        let by: Vec<String> = names(&from.quorum).into_iter().filter(|name| self.stolen.contains(name)).collect();
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let to = self.org.later(from.version + 1, 1, &[&thief]);
        let sent = self.org.succession(from, &to, head, &by);
        self.keep(sent.into(), &format!("a succession of set {} to {thief}", from.version));
    }

    /// By too few of the keys that it needs.
    fn forge_unsigned_step(&mut self, thief: &str, dice: &mut Dice) {
        let (from, head) = (dice.pick(&[0, 1, 2, 3]).min(self.truth.len() - 1), self.org.first.digest());
        let from = self.truth[from].clone();
        let to = self.org.later(from.version + 1, 1, &[thief]);
        let by: Vec<String> = names(&from.quorum).into_iter().filter(|name| self.stolen.contains(name)).collect();
        let few = from.quorum.threshold().min(by.len() + 1) - 1;
        let by: Vec<&str> = by.iter().map(String::as_str).take(few).collect();
        let sent = match dice.below(2) {
            0 => self.org.succession(&from, &to, head, &by),
            _ => self.org.recovery(&from, &to, head, &["phrase-1"]),
        };
        self.keep(sent.into(), &format!("a step from set {} to {thief}, signed by too few", from.version));
    }

    /// Whatever day they like to write: long ago, these days, or long after.
    fn date(&self, dice: &mut Dice) -> Timestamp {
        let (now, long) = (day(self.now), Seconds::DAY.times(8 * DELAY));
        let dates = [Timestamp::from_unix(0), day(0), now - long, now, now + long, Timestamp::from_unix(i64::MAX)];
        dice.pick(&dates)
    }

    /// An entry in a stolen voice: at the end, or beside another; of an own key, of one that was revoked, or a claim that
    /// an honest machine made.
    pub(super) fn forge_entry(&mut self, dice: &mut Dice) {
        let voices: Vec<&str> = self.voices.iter().copied().collect();
        let gateway = dice.pick(&voices);
        let at = self.any(dice);
        let mut chain: Vec<SignedEntry> = self.drawer.iter().filter_map(|sent| self.entry_of(sent, gateway)).collect();
        chain.extend(self.replicas.iter().flat_map(|(_, replica)| replica.entries_of(gateway)).cloned());
        chain.sort_by_key(|signed| (signed.entry.seq, signed.digest));
        chain.dedup_by_key(|signed| signed.digest);
        for _ in 0..=dice.below(3) {
            let beside = dice.below(8) == 0;
            let last = if beside { dice.choose(&chain) } else { chain.last() };
            let heads: Vec<Under> = self.replicas[at].1.heads.values().map(under_of).collect();
            let nothing = Under { version: dice.below(9), digest: Digest([0; 32]) };
            let under = dice.choose(&heads).copied().filter(|_| dice.below(2) == 0).unwrap_or(nothing);
            let says = Says { under, at: self.date(dice) };
            let Some((action, told)) = self.forged_action(at, dice) else { return };
            let entry = self.org.entry(gateway, last, says, action);
            let seq = entry.entry.seq;
            chain.push(entry.clone());
            self.keep(entry.into(), &format!("entry {seq} of {gateway}, dated {}: {told}", says.at));
        }
    }

    fn entry_of(&self, sent: &Sent, gateway: &str) -> Option<SignedEntry> {
        let signed = SignedEntry::open(self.org.founding.id, sent.envelope.clone()).ok()?;
        (signed.entry.voice == voice(gateway)).then_some(signed)
    }

    fn forged_action(&mut self, at: usize, dice: &mut Dice) -> Option<(Action, String)> {
        let honest = self.replicas[at].1.entries();
        let honest: Vec<_> = honest.filter(|signed| self.honest.contains(&signed.digest)).cloned().collect();
        if let (0, Some(signed)) = (dice.below(5), dice.choose(&honest)) {
            return Some((signed.entry.action.clone(), format!("what {} says, once more", short(signed.digest))));
        }
        if dice.below(6) == 0 {
            return Some(self.forged_aside(at, dice));
        }
        let mut invites = self.invites_of(at);
        let own = self.drawer.iter().map(|sent| &sent.envelope);
        let own = own.filter_map(|it| Some((it.clone(), it.peek::<Invite>(Some(self.org.founding.id)).ok()?)));
        invites.extend(own);
        let (envelope, invite) = dice.choose(&invites)?;
        let listed: Vec<String> = invite.names.iter().map(ToString::to_string).collect();
        let name = if dice.below(6) == 0 { dice.pick(&NAMES) } else { dice.choose(&listed)?.as_str() };
        let any = 1 + dice.below(self.count.max(1));
        let keys = ["e-one".to_owned(), "e-two".to_owned(), self.fresh("e"), "ka".to_owned(), format!("k{any}")];
        let thief = dice.choose(&keys)?;
        let told = format!("{thief} as `{name}` under `{}`", invite.label);
        let claim = self.org.claim((thief, name), envelope, None);
        let approval = match invite.approval {
            Approval::None => None,
            Approval::Human => self.forged_yes(at, claim.digest(), dice),
        };
        Some((Action::NodeAdmit { claim, invite: Some(envelope.clone()), approval }, told))
    }

    /// By a stolen key about this very machine; or what anybody said of another.
    fn forged_yes(&self, at: usize, about: Digest, dice: &mut Dice) -> Option<Envelope> {
        if dice.below(2) == 0 {
            let yes = Decision { about, verdict: Verdict::Approve, until: self.end(dice) };
            let by: Vec<&str> = self.stolen.iter().map(String::as_str).collect();
            return Some(self.org.seal(&yes, &by));
        }
        let said = self.replicas[at].1.objects.values().chain(self.drawer.iter().map(|sent| &sent.envelope));
        let said: Vec<Envelope> =
            said.filter(|it| [Decision::KIND, Waiver::KIND].contains(&it.kind())).cloned().collect();
        dice.choose(&said).cloned()
    }

    fn end(&self, dice: &mut Dice) -> Option<Timestamp> {
        let until = self.date(dice);
        Some(until).filter(|_| dice.below(4) > 0)
    }

    /// That somebody else left or came, what operators signed, or a claim by nobody's invite.
    fn forged_aside(&mut self, at: usize, dice: &mut Dice) -> (Action, String) {
        let (thief, name) = (self.fresh("e"), dice.pick(&NAMES));
        match dice.below(4) {
            0 => {
                let leave = Leave { node_key: machine("ka").public(), at: self.date(dice) };
                let leave = self.org.seal(&leave, &[]).signed(machine(&thief).as_ref()).unwrap();
                (Action::NodeLeave { leave, name: node("alpha") }, "that ka leaves".to_owned())
            }
            1 => {
                let said = self.replicas[at].1.objects.values().chain(self.drawer.iter().map(|sent| &sent.envelope));
                let said: Vec<Envelope> = said
                    .filter(|it| ![Entry::KIND, Succession::KIND, Recovery::KIND].contains(&it.kind()))
                    .cloned()
                    .collect();
                match dice.choose(&said).cloned() {
                    Some(envelope) => {
                        let told = format!("that it took {}", short(envelope.digest()));
                        (Action::Take { envelope }, told)
                    }
                    None => (Action::NodeJoin { node_key: key("ka"), name: node("alpha") }, "that ka came".to_owned()),
                }
            }
            2 => {
                let words = self.replicas[at].1.objects.values().filter(|it| it.kind() == Claim::KIND);
                let said = dice.choose(&words.cloned().collect::<Vec<_>>()).cloned().filter(|_| dice.below(2) == 0);
                let claim = said.unwrap_or_else(|| self.forged_word(&thief, name, dice));
                (
                    Action::NodeAdmit { claim, invite: None, approval: None },
                    format!("{thief} as `{name}` by the signers"),
                )
            }
            _ => (Action::NodeJoin { node_key: key("ka"), name: node("alpha") }, "that ka came".to_owned()),
        }
    }

    fn forged_word(&self, thief: &str, name: &str, dice: &mut Dice) -> Envelope {
        let by: Vec<&str> = self.stolen.iter().map(String::as_str).collect();
        let claim = Claim { until: self.end(dice), ..claim(thief, name, ClaimAuthority::Signers) };
        self.org.seal(&claim, &by).signed(machine(thief).as_ref()).unwrap()
    }

    /// Yes, no, a waiver, a suspension or a claim, by all keys that they have, for whatever time they like.
    pub(super) fn forge_word(&mut self, dice: &mut Dice) {
        let by: Vec<String> = self.stolen.iter().cloned().collect();
        if by.is_empty() {
            return;
        }
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let (thief, name) = (self.fresh("e"), dice.pick(&NAMES));
        let asked = dice.choose(&self.asked).map(|asked| asked.claim.digest());
        let objects = &self.replicas[self.any(dice)].1.objects;
        let said: Vec<Digest> = objects.keys().copied().chain(self.let_in()).collect();
        let about = asked.filter(|_| dice.below(3) > 0).or_else(|| dice.choose(&said).copied()).unwrap_or(key("ka"));
        let (sent, told) = match dice.below(5) {
            0 => {
                let no = Decision { about, verdict: Verdict::Deny, until: self.end(dice) };
                (self.org.seal(&no, &by), format!("a no to {}", short(about)))
            }
            1 => {
                let yes = Decision { about, verdict: Verdict::Approve, until: self.end(dice) };
                (self.org.seal(&yes, &by), format!("a yes to {}", short(about)))
            }
            2 => {
                let (from, until) = (self.date(dice), self.date(dice));
                let names = NAMES.iter().map(|name| name.parse().unwrap()).collect();
                (self.org.seal(&Waiver { names, from, until }, &by), format!("a waiver from {from} until {until}"))
            }
            3 => {
                let (target, at, ends) = (self.machine(dice), self.date(dice), self.date(dice));
                let until = if dice.below(2) == 0 { at + Seconds::DAY } else { ends };
                let body = suspension(target, at, until);
                (self.org.seal(&body, &by), format!("a suspension of {} from {at} until {until}", short(target)))
            }
            _ => (self.forged_word(&thief, name, dice), format!("the signers' word for {thief} as `{name}`")),
        };
        self.keep(sent.into(), &format!("{told}, by {by:?}"));
    }

    /// Claims of machines that honest gateways let in.
    fn let_in(&self) -> impl Iterator<Item = Digest> {
        let entries = self.replicas.iter().flat_map(|(_, replica)| replica.entries());
        let honest = entries.filter(|signed| self.honest.contains(&signed.digest));
        honest.filter_map(|signed| Some(Evidence::of(self.org.founding.id, signed).ok()?.claimed))
    }

    /// One of several signers has another one co-sign a head that names, by digest alone, one that she signed by herself.
    pub(super) fn trick(&mut self, dice: &mut Dice) {
        let Some(set) = self.set_of(0).filter(|set| self.truth.last() == Some(set)) else { return };
        let (stolen, honest): (Vec<_>, Vec<_>) =
            names(&set.quorum).into_iter().partition(|name| self.stolen.contains(name));
        let by: Vec<&str> = stolen.iter().chain(&honest).map(String::as_str).take(set.quorum.threshold()).collect();
        if stolen.is_empty() || stolen.len() >= set.quorum.threshold() {
            return;
        }
        let Ok(draft) = draft(&self.replicas[0].1, day(self.now), &Wish::default()) else { return };
        let (thief, name, as_recent) = (self.fresh("e"), dice.pick(&NAMES), dice.below(2) == 0);
        let base = self.org.head(draft.head.clone(), draft.leaves.clone(), &[]);
        let alone = self.org.forged(&base, &by[..stolen.len()], |head, leaves| {
            head.previous.clone_from(&draft.head.previous);
            head.revocations.node_keys.insert(key("ka"));
            leaves.insert(node(name), leaf(name, &thief));
        });
        let mut head = draft.head;
        if as_recent {
            head.recent.push(alone.digest());
        } else {
            head.previous.push(alone.digest());
        }
        let named = self.org.head(head, draft.leaves, &by);
        self.keep(alone.clone(), &format!("a head by {stolen:?} alone with {thief} as `{name}`"));
        self.say(&format!("{by:?} sign a head that names it ({})", short(named.digest())));
        self.hand(0, &named);
        if dice.below(2) == 0 {
            self.hand(0, &alone);
        }
    }

    pub(super) fn forge_invite(&mut self, dice: &mut Dice) {
        let stolen: Vec<&str> = self.stolen.iter().map(String::as_str).collect();
        if stolen.is_empty() || (self.cast.theft == Theft::Signer && dice.below(2) == 0) {
            return;
        }
        let by: Vec<String> = stolen.iter().map(|name| (*name).to_owned()).collect();
        let id = self.fresh("false-");
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let body = invite(&id, &NAMES, &[("g1", 5), ("g2", 5), ("g3", 5)], 100_000);
        let sent = self.org.seal(&asking(body, dice.pick(&[0, 0, 1])), &by);
        self.keep(sent.into(), &format!("`{id}`, signed by {by:?}"));
    }

    pub(super) fn release(&mut self, dice: &mut Dice) {
        let Some(sent) = dice.choose(&self.drawer).cloned() else { return };
        let to = self.any(dice);
        let all = if dice.below(3) == 0 { self.drawer.clone() } else { vec![sent] };
        for sent in all.into_iter().filter(|sent| self.may_reach(to, sent)).collect::<Vec<_>>() {
            let name = &self.replicas[to].0;
            self.say(&format!("thieves give {} to {name}", short(sent.digest())));
            self.hand(to, &sent);
        }
    }

    /// A stranger without any key hands on what a replica has already, spoiled: nothing may change by that.
    pub(super) fn garble(&mut self, dice: &mut Dice) {
        let to = self.any(dice);
        let replica = &self.replicas[to].1;
        let things: Vec<Sent> =
            holdings(replica).into_iter().filter(|sent| sent.envelope.kind() != Entry::KIND).collect();
        let Some(sent) = dice.choose(&things) else { return };
        let signers: Vec<String> = self.truth.iter().flat_map(|set| names(&set.quorum)).collect();
        let Some(of) = dice.choose(&signers) else { return };
        let (mut spoiled, before) = (replica.clone(), replica.state(day(self.now)));
        let envelope = junk(&sent.envelope, of, dice.pick(&["0", "A", "z", "~"]));
        let swapped = |map: &Leaves| map.keys().rev().cloned().zip(map.values().cloned()).collect();
        hear(&mut spoiled, &Sent { envelope, map: sent.map.as_ref().map(swapped) }, self.now);
        let (told, after) = (format!("a stranger spoils {}", short(sent.digest())), spoiled.state(day(self.now)));
        self.replicas[to].1 = spoiled;
        self.say(&told);
        if before != after {
            self.breaks("L2", &format!("a stranger changes something at {}", self.replicas[to].0));
        }
    }
}

const fn under_of(record: &HeadRecord) -> Under {
    Under { version: record.head.version, digest: record.digest }
}
