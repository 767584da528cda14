//! What thieves do in a history: they make things for their drawer, and release each to whom and when they like.

use identity::envelope::Payload as _;
use identity::head::Revocations;
use identity::id::Digest;

use super::acts::NAMES;
use super::{Dice, History, Theft, names, short};
use crate::invite::Invite;
use crate::ledger::entry::{Action, Entry, SignedEntry, Under};
use crate::ledger::fold::Leaves;
use crate::ledger::tests::replicas::{admission, hear, holdings};
use crate::ledger::tests::world::{GATEWAYS, Sent, day, junk, key, leaf, mandate, node, voice};

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
        let forged = self.org.forged(&base, &by, |head, leaves| {
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
        let thief = self.fresh("eve");
        let head = self.org.first.digest();
        let own: Vec<_> = self.truth.iter().filter(|set| self.thieves_speak_for(set)).cloned().collect();
        let in_force = self.truth.last().cloned();
        let replaced: Vec<_> =
            own.into_iter().filter(|set| Some(set) != in_force.as_ref() || self.cast.theft == Theft::Signer).collect();
        if self.cast.theft == Theft::Phrases && dice.below(2) == 0 {
            let Some(from) = dice.choose(&self.truth).cloned() else { return };
            let settles = dice.below(3) == 0;
            let to = self.org.later(from.version + 1 + u64::from(settles), 1, &[&thief]);
            let by = &["phrase-1", "phrase-2"];
            let sent =
                if settles { self.org.way_out(&from, &to, head, by) } else { self.org.recovery(&from, &to, head, by) };
            self.keep(sent.into(), &format!("a recovery of set {} to {thief}", from.version));
            return;
        }
        let Some(from) = dice.choose(&replaced) else { return };
        let by: Vec<String> = names(&from.quorum).into_iter().filter(|name| self.stolen.contains(name)).collect();
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let to = self.org.later(from.version + 1, 1, &[&thief]);
        let sent = self.org.succession(from, &to, head, &by);
        self.keep(sent.into(), &format!("a succession of set {} to {thief}", from.version));
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
            let under = Under { version: dice.below(9), digest: Digest([0; 32]) };
            let Some((action, told)) = self.forged_action(at, dice) else { return };
            let entry = self.org.entry(gateway, last, under, action);
            let seq = entry.entry.seq;
            chain.push(entry.clone());
            self.keep(entry.into(), &format!("entry {seq} of {gateway}: {told}"));
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
        let mut invites = self.invites_of(at);
        let own = self.drawer.iter().map(|sent| &sent.envelope);
        let own = own.filter_map(|it| Some((it.clone(), it.peek::<Invite>(Some(self.org.founding.id)).ok()?)));
        invites.extend(own);
        let (envelope, invite) = dice.choose(&invites)?;
        let listed: Vec<String> = invite.names.iter().map(ToString::to_string).collect();
        let name = if dice.below(6) == 0 { dice.pick(&NAMES) } else { dice.choose(&listed)?.as_str() };
        let count = self.count;
        let keys = ["e-one".to_owned(), "e-two".to_owned(), self.fresh("e"), "ka".to_owned(), format!("k{count}")];
        let thief = dice.choose(&keys)?;
        let told = format!("{thief} as `{name}` under `{}`", invite.label);
        Some((admission(&self.org, (thief, name), envelope), told))
    }

    pub(super) fn forge_invite(&mut self, dice: &mut Dice) {
        let stolen: Vec<&str> = self.stolen.iter().map(String::as_str).collect();
        if stolen.is_empty() || (self.cast.theft == Theft::Signer && dice.below(2) == 0) {
            return;
        }
        let by: Vec<String> = stolen.iter().map(|name| (*name).to_owned()).collect();
        let id = self.fresh("false-");
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let sent = self.org.invite(&id, &NAMES, &[("g1", 5), ("g2", 5), ("g3", 5)], (100_000, &by));
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
