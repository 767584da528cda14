//! What operators say beside heads: a person's yes and no, a waiver, a claim that they let in themselves, and a suspension.

use identity::envelope::{Envelope, Payload as _};
use identity::id::Digest;
use identity::time::{Seconds, Timestamp};

use super::acts::{Desk, NAMES};
use super::{Asked, Dice, History, short};
use crate::invite::Invite;
use crate::invite::admission::Claim;
use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::ledger::counts::counts;
use crate::ledger::entry::Action;
use crate::ledger::evidence::Evidence;
use crate::ledger::ground::Ground;
use crate::ledger::judge::approved;
use crate::ledger::signers::Signers;
use crate::ledger::tests::replicas::Store;
use crate::ledger::tests::world::{Sent, day, key, node, voice};
use crate::suspend::Suspension;

impl History {
    /// Where somebody must say yes, a machine asks, waits, and asks again.
    pub(super) fn join_by_yes(&mut self, desk: &Desk, invite: &Envelope, name: &str) {
        let asks = |it: &&Asked| it.invite.digest() == invite.digest() && it.name == name;
        let asked = self.asked.iter().find(asks).cloned().unwrap_or_else(|| {
            let key = self.fresh("k");
            let claim = self.org.claim((&key, name), invite, None);
            self.say(&format!("{key} asks at {} to be `{name}` ({})", desk.gateway, short(claim.digest())));
            let asked = Asked { key, name: name.to_owned(), claim, invite: invite.clone() };
            self.asked.push(asked.clone());
            asked
        });
        let replica = &self.replicas[desk.at].1;
        let (denied, claimed) = (replica.denied(&desk.ground), asked.claim.digest());
        let body: Invite = asked.invite.peek(Some(replica.org)).unwrap();
        let lets_in = |it: &&Envelope| {
            let yes = approved(it, claimed, &node(name), &body, &desk.ground).is_ok();
            yes && !denied.contains(&it.digest()) && !denied.contains(&claimed)
        };
        let Some(approval) = replica.objects.values().find(lets_in).cloned() else { return };
        let told = format!("{} lets {} in as `{name}`, by {}", desk.gateway, asked.key, short(approval.digest()));
        let Asked { claim, invite, .. } = asked;
        let admits = Action::NodeAdmit { claim, invite: Some(invite), approval: Some(approval) };
        let digest = self.write(desk.at, desk.gateway, admits);
        self.honest.insert(digest);
        self.asked.retain(|it| it.claim.digest() != claimed);
        self.say(&format!("{told} ({})", short(digest)));
    }

    /// One or more persons say yes or no to a machine that asks, or no to a waiver.
    pub(super) fn say_of_a_claim(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(set) = self.set_of(home).filter(|set| self.truth.contains(set)) else { return };
        let operators = super::names(&set.quorum);
        let many = usize::try_from(1 + dice.below(2)).unwrap();
        let start = usize::try_from(dice.below(operators.len() as u64)).unwrap();
        let by: Vec<&str> = operators.iter().cycle().skip(start).take(many).map(String::as_str).collect();
        let asked = dice.choose(&self.asked).filter(|_| dice.below(6) > 0).cloned();
        let no = dice.below(4) == 0;
        let (said, told) = if let Some(Asked { claim, invite, .. }) = &asked {
            let (about, invite) = (claim.digest(), invite.peek::<Invite>(Some(self.org.founding.id)).unwrap());
            let yes = Decision::yes(about, &invite, day(self.now));
            let said = if no { Decision::no(about, invite.expires_at, Seconds::DAY.times(10)) } else { yes };
            (said, if no { "no" } else { "yes" })
        } else {
            let waivers = self.replicas[home].1.objects.values().filter(|it| it.kind() == Waiver::KIND);
            let Some(waiver) = dice.choose(&waivers.cloned().collect::<Vec<_>>()).cloned() else { return };
            (Decision::no(waiver.digest(), day(self.now + 31), Seconds::DAY.times(10)), "no")
        };
        let words: Sent = self.org.seal(&said, &by).into();
        self.say(&format!("{by:?} say {told} to {} ({})", short(said.about), short(words.digest())));
        self.tell_most(home, &words, dice);
        // Whoever waits is told at once.
        if let (Some(desk), Some(Asked { name, invite, .. })) = (self.desk(dice), asked) {
            let open = |it: &&(Envelope, Invite)| it.0.digest() == invite.digest() && self.is_open(&desk, it);
            if self.invites_of(desk.at).iter().any(|it| open(&it)) && desk.is_free(&name) {
                self.join_by_yes(&desk, &invite, &name);
            }
        }
    }

    /// Nobody need look, for a while.
    pub(super) fn waive(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(by) = self.signers_at(home) else { return };
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let names = vec![dice.pick(&NAMES).parse().unwrap(), dice.pick(&NAMES).parse().unwrap()];
        let waiver = Waiver { names, from: day(self.now), until: day(self.now + dice.pick(&[2, 10, 30, 40])) };
        let sent: Sent = self.org.seal(&waiver, &by).into();
        self.say(&format!("{by:?} waive looking until {} ({})", waiver.until, short(sent.digest())));
        self.tell_most(home, &sent, dice);
    }

    /// The signers themselves let a machine in, at a gateway.
    pub(super) fn vouch(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let (Some(by), name) = (self.signers_at(home), dice.pick(&NAMES)) else { return };
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let (key, until) = (self.fresh("k"), self.now + dice.pick(&[2, 10, 40]));
        let claim = self.org.word((&key, name), until, &by);
        self.say(&format!("{by:?} let {key} in as `{name}`, until day {until} ({})", short(claim.digest())));
        self.tell_most(home, &claim.clone().into(), dice);
        let Some(desk) = self.desk(dice) else { return };
        if counts::<Claim>(&claim, &desk.ground).is_ok() && desk.is_free(name) {
            let digest = self.write(desk.at, desk.gateway, Action::NodeAdmit { claim, invite: None, approval: None });
            self.honest.insert(digest);
            self.say(&format!("{} lets it in ({})", desk.gateway, short(digest)));
        }
    }

    pub(super) fn suspend(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(set) = self.set_of(home).filter(|set| self.truth.contains(set)) else { return };
        let operators = super::names(&set.quorum);
        let (by, target) = (dice.choose(&operators).unwrap().clone(), self.machine(dice));
        let (now, hours) = (day(self.now), Seconds::HOUR.times(1 + dice.below(24)));
        let body = suspension(target, now, now + hours);
        let word: Sent = self.org.seal(&body, &[&by]).into();
        self.say(&format!("{by} suspends {} ({})", short(target), short(word.digest())));
        let turn = (voice(&by), target, set.version);
        let first = !self.stops[home].first.contains_key(&turn);
        self.tell_most(home, &word, dice);
        if first && self.stops[home].told.stopped(&set).of(target, now).is_none() {
            self.breaks("L10", "a signer's first word stops nobody");
        }
    }

    /// The key of any machine that ever was.
    pub(super) fn machine(&self, dice: &mut Dice) -> Digest {
        match dice.below(2 * self.count + 2) {
            nth if nth > 0 && nth <= self.count => key(&format!("k{nth}")),
            _ => key("ka"),
        }
    }

    /// What arrives again and again was first heard of once.
    pub(super) fn hear_suspension(&mut self, to: usize, envelope: &Envelope) {
        let now = day(self.now);
        let Ok(body) = envelope.peek::<Suspension>(Some(self.org.founding.id)) else { return };
        let Signers::InForce(in_force) = self.replicas[to].1.signers(now) else { return };
        // One that lasts for no time is nobody's turn.
        let lasts = body.at < body.until;
        for signer in envelope.signers_among(&in_force.set.quorum.keys()).into_iter().filter(|_| lasts) {
            let turn = (signer, body.node_key, in_force.set.version);
            self.stops[to].first.entry(turn).or_insert(self.now);
        }
        self.stops[to].told.take(std::slice::from_ref(envelope), &in_force.set, now);
        self.touched.insert(to);
    }

    /// L10: one signer of the set in force stops a machine for a day from when this was first heard of, and once.
    pub(super) fn look_for_stopped(&mut self, at: usize, ground: &Ground) {
        let stops = &self.stops[at];
        let stopped = stops.told.stopped(&ground.set);
        let targets = stops.first.keys().map(|(_, target, _)| *target);
        let mut wrong = Vec::new();
        for target in targets {
            let Some(word) = stopped.of(target, day(self.now)) else { continue };
            self.tally.stopped += 1;
            let turn = |(signer, of, _): &(_, Digest, u64)| *signer == voice(word.by.as_str()) && *of == target;
            if !stops.first.iter().any(|(it, first)| turn(it) && *first == self.now) {
                wrong.push(format!("{} is stopped by `{}`, whose turn it is not", short(target), word.by));
            }
        }
        for what in wrong {
            self.breaks("L10", &format!("at {} {what}", self.replicas[at].0));
        }
    }
}

pub(super) fn suspension(node_key: Digest, at: Timestamp, until: Timestamp) -> Suspension {
    Suspension { node_key, name: node("alpha"), at, until, reason: String::new() }
}

/// Counted afresh: by the head in force and all copies that are here, does it count what lets this machine in?
pub(super) fn is_backed(replica: &Store, ground: &Ground, evidence: &Evidence) -> bool {
    let (Some(head), keys) = (ground.head(), ground.set.quorum.keys()) else { return false };
    let enough = |envelope: &Envelope, needed: usize| {
        let mut by = envelope.signers_among(&keys);
        let copy = replica.objects.get(&envelope.digest());
        by.extend(copy.map(|object| object.signers_among(&keys)).unwrap_or_default());
        by.len() >= needed
    };
    let (threshold, now) = (ground.set.quorum.threshold(), head.issued_at);
    let no_to = |about: Digest| {
        let said = |it: &Envelope| {
            let no: Option<Decision> = it.peek(Some(replica.org)).ok();
            let no = no.filter(|no| no.about == about && no.verdict == Verdict::Deny);
            no.is_some_and(|no| no.until.is_some_and(|until| now < until)) && enough(it, 1)
        };
        replica.objects.values().any(said)
    };
    let Some((envelope, invite)) = &evidence.invite else {
        return evidence.claim.until.is_some_and(|until| now < until) && enough(&evidence.signed_claim, threshold);
    };
    let fresh = head.fresh_until.since(now);
    let invited = enough(envelope, threshold)
        && now < invite.expires_at + fresh
        && !ground.revoked.invite_is_revoked(invite.id)
        && invite.names.iter().any(|glob| glob.matches(evidence.claim.name.as_str()));
    if !invited || no_to(evidence.claimed) {
        return false;
    }
    if invite.approval == crate::invite::Approval::None {
        return true;
    }
    let Some(approval) = &evidence.approval else { return false };
    if no_to(approval.digest()) {
        return false;
    }
    let persons = usize::from(invite.approvers);
    if let Ok(yes) = approval.peek::<Decision>(Some(replica.org)) {
        let says = (yes.about, yes.verdict) == (evidence.claimed, Verdict::Approve);
        return says && yes.until.is_some_and(|until| now < until) && enough(approval, persons);
    }
    let Ok(waiver) = approval.peek::<Waiver>(Some(replica.org)) else { return false };
    let named = waiver.names.iter().any(|glob| glob.matches(evidence.claim.name.as_str()));
    let lasts = now < waiver.until && waiver.until.since(waiver.from) <= Seconds::DAY.times(31);
    named && lasts && enough(approval, persons.max(threshold))
}
