//! What honest people and machines do in a history.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::signers::{SignerSet, Word};

use super::{Act, Dice, History, Theft, What, names, short};
use crate::invite::{Approval, Invite, Uses};
use crate::ledger::counts::counts;
use crate::ledger::draft::Draft;
use crate::ledger::entry::Action;
use crate::ledger::evidence::Evidence;
use crate::ledger::fold::{Projection, Waiting};
use crate::ledger::ground::Ground;
use crate::ledger::signers::Signers;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{Store, admission, last, under};
use crate::ledger::tests::world::{Says, Sent, day, key, mandate, node, signed, voice};

pub(super) const NAMES: [&str; 4] = ["x", "y", "z", "alpha"];

/// The voices of `g1`, one after the other.
const VOICES: [&str; 3] = ["g1", "g1-b", "g1-c"];

/// What an honest gateway has before it when a machine asks.
pub(super) struct Desk {
    pub at: usize,
    pub gateway: &'static str,
    pub ground: Ground,
    pub state: Projection,
}

impl Desk {
    /// Has nobody this name, and does nobody wait for it?
    pub(super) fn is_free(&self, name: &str) -> bool {
        let claimed = |it: &Waiting| it.claims.as_ref().is_some_and(|(claimed, _)| claimed.as_str() == name);
        !self.state.members.contains_key(&node(name)) && !self.state.waiting.values().any(claimed)
    }
}

impl History {
    pub(super) fn act(&mut self, Act { what, mut dice }: Act) {
        let dice = &mut dice;
        match what {
            What::Wait => self.wait(dice),
            What::Exchange => self.meet(dice),
            What::Invite => self.invite(dice),
            What::Join => self.join(dice),
            What::Leave => self.leave(dice),
            What::HandOn => self.hand_on(dice),
            What::Publish => self.publish(dice),
            What::GoRound => self.go_round(dice),
            What::Reopen => self.reopen(dice),
            What::Rotate => self.rotate(dice),
            What::Settle => self.settle(dice),
            What::SignAnew => self.sign_anew(dice),
            What::Say => self.say_of_a_claim(dice),
            What::Waive => self.waive(dice),
            What::Vouch => self.vouch(dice),
            What::Suspend => self.suspend(dice),
            What::Arrive => self.arrive(dice),
            What::Restore => self.restore(dice),
            What::ForgeHead => self.forge_head(dice),
            What::ForgeStep => self.forge_step(dice),
            What::ForgeEntry => self.forge_entry(dice),
            What::ForgeInvite => self.forge_invite(dice),
            What::ForgeWord => self.forge_word(dice),
            What::Trick => self.trick(dice),
            What::Release => self.release(dice),
            What::Garble => self.garble(dice),
        }
    }

    fn wait(&mut self, dice: &mut Dice) {
        self.now += dice.pick(&[1, 1, 1, 2, 2, 5, 12, 70]);
    }

    fn meet(&mut self, dice: &mut Dice) {
        let (from, to) = self.two(dice);
        let partly = dice.below(2) == 0;
        let mut chance = *dice;
        self.exchange(from, to, || !partly || chance.below(5) > 1);
        let (from, to) = (&self.replicas[from].0, &self.replicas[to].0);
        let some = if partly { "some of what it has" } else { "all that it has" };
        self.say(&format!("{from} hands {to} {some}"));
    }

    pub(super) fn any(&self, dice: &mut Dice) -> usize {
        usize::try_from(dice.below(self.replicas.len() as u64)).unwrap()
    }

    fn two(&self, dice: &mut Dice) -> (usize, usize) {
        let from = self.any(dice);
        let others = self.replicas.len() as u64 - 1;
        let step = usize::try_from(1 + dice.below(others)).unwrap();
        (from, (from + step) % self.replicas.len())
    }

    pub(super) fn home(&self, dice: &mut Dice) -> usize {
        usize::try_from(dice.below(self.homes as u64)).unwrap()
    }

    pub(super) fn invites_of(&self, replica: usize) -> Vec<(Envelope, Invite)> {
        let replica = &self.replicas[replica].1;
        let read = |envelope: &Envelope| Some((envelope.clone(), envelope.peek::<Invite>(Some(replica.org)).ok()?));
        replica.objects.values().filter_map(read).collect()
    }

    fn invite(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(by) = self.signers_at(home) else { return };
        let (id, start) = (self.fresh("invite-"), usize::try_from(dice.below(4)).unwrap());
        let listed: Vec<&str> = NAMES.into_iter().cycle().skip(start).take(2).collect();
        let until = self.now + dice.pick(&[2, 8, 20, 90]);
        let rights =
            [self.voice_of_g1(), "g2", "g3"].map(|gateway| (gateway, u32::try_from(1 + dice.below(2)).unwrap()));
        let approvers = dice.pick(&[0, 0, 1, 2]);
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let body = asking(crate::ledger::tests::world::invite(&id, &listed, &rights, until), approvers);
        let sent: Sent = self.org.seal(&body, &by).into();
        let asks = if approvers > 0 { format!(", which asks {approvers} persons") } else { String::new() };
        self.say(&format!("{by:?} make `{id}` for {listed:?}, uses {rights:?}, until day {until}{asks}"));
        self.tell_most(home, &sent, dice);
    }

    /// A home and most honest gateways.
    pub(super) fn tell_most(&mut self, home: usize, sent: &Sent, dice: &mut Dice) {
        self.hand(home, sent);
        (self.homes..self.homes + 2).filter(|_| dice.below(4) > 0).for_each(|gateway| self.hand(gateway, sent));
    }

    /// One of the honest gateways, if it is mandated, knows of no fork of its own, and nobody else has its voice.
    pub(super) fn desk(&self, dice: &mut Dice) -> Option<Desk> {
        let (offset, gateway) = dice.pick(&[(0, self.voice_of_g1()), (1, "g3")]);
        let at = self.homes + offset;
        let replica = &self.replicas[at].1;
        let ground = replica.ground(day(self.now)).ok()?;
        let state = replica.fold(&ground);
        let open = ground.mandate(voice(gateway)).is_some() && !state.forks.contains_key(&voice(gateway));
        (open && !self.voices.contains(gateway)).then_some(Desk { at, gateway, ground, state })
    }

    pub(super) fn write(&mut self, at: usize, gateway: &str, action: Action) -> Digest {
        let replica = &self.replicas[at].1;
        let says = Says { under: under(replica, self.now), at: day(self.now) };
        let signed = self.org.entry(gateway, last(replica, gateway), says, action);
        let digest = signed.digest;
        self.hand(at, &signed.into());
        digest
    }

    fn voice_of_g1(&self) -> &'static str {
        VOICES[self.reopened]
    }

    /// Does it let somebody in at this gateway?
    pub(super) fn is_open(&self, desk: &Desk, (envelope, invite): &(Envelope, Invite)) -> bool {
        let counts = counts::<Invite>(envelope, &desk.ground).is_ok() && invite.expires_at > day(self.now);
        counts && has_uses(&self.replicas[desk.at].1, desk.gateway, invite)
    }

    fn join(&mut self, dice: &mut Dice) {
        let Some(desk) = self.desk(dice) else { return };
        let invites: Vec<_> = self.invites_of(desk.at).into_iter().filter(|it| self.is_open(&desk, it)).collect();
        let Some((envelope, invite)) = dice.choose(&invites) else { return };
        let names: Vec<String> = invite.names.iter().map(ToString::to_string).collect();
        let Some(name) = dice.choose(&names).cloned() else { return };
        if !desk.is_free(&name) {
            return;
        }
        if invite.approval == Approval::Human {
            return self.join_by_yes(&desk, envelope, &name);
        }
        let key = self.fresh("k");
        let digest = self.write(desk.at, desk.gateway, admission(&self.org, (&key, &name), envelope));
        self.honest.insert(digest);
        self.say(&format!("{} lets {key} in as `{name}` under `{}` ({})", desk.gateway, invite.label, short(digest)));
    }

    fn leave(&mut self, dice: &mut Dice) {
        let Some(desk) = self.desk(dice) else { return };
        if desk.state.members.get(&node("alpha")).is_some_and(|it| it.key == key("ka")) {
            let leave = self.org.leave("ka");
            self.leaving.insert(key("ka"));
            self.write(desk.at, desk.gateway, Action::NodeLeave { leave, name: node("alpha") });
            self.say(&format!("ka says at {} that it leaves", desk.gateway));
        }
    }

    fn hand_on(&mut self, dice: &mut Dice) {
        let Some(desk) = self.desk(dice) else { return };
        let fits = |(envelope, invite): &&(Envelope, Invite)| {
            let alpha = invite.approval == Approval::None && invite.names.iter().any(|glob| glob.matches("alpha"));
            alpha && counts::<Invite>(envelope, &desk.ground).is_ok()
        };
        let invites = self.invites_of(desk.at);
        let Some((envelope, invite)) = invites.iter().find(fits) else { return };
        if !has_uses(&self.replicas[desk.at].1, desk.gateway, invite) {
            return;
        }
        let key = self.fresh("k");
        let claim = self.org.claim((&key, "alpha"), envelope, Some("ka"));
        let action = Action::NodeAdmit { claim, invite: Some(envelope.clone()), approval: None };
        let digest = self.write(desk.at, desk.gateway, action);
        self.honest.insert(digest);
        self.say(&format!("ka hands the name `alpha` on to {key} at {} ({})", desk.gateway, short(digest)));
    }

    fn wish(&mut self, home: usize, dice: &mut Dice) -> (Wish, String) {
        let Ok(state) = self.replicas[home].1.state(day(self.now)) else { return Default::default() };
        let members: Vec<_> = state.members.iter().map(|(name, it)| (name.clone(), it.key)).collect();
        match dice.below(20) {
            0..5 => match dice.choose(&members) {
                Some((name, key)) => {
                    (Wish { revoke_keys: vec![*key], ..Wish::default() }, format!(", revoking `{name}`'s key"))
                }
                None => Default::default(),
            },
            5 | 6 => match dice.choose(&self.invites_of(home)) {
                Some((_, invite)) => (
                    Wish { revoke_invites: vec![invite.id], ..Wish::default() },
                    format!(", revoking `{}`", invite.label),
                ),
                None => Default::default(),
            },
            7 | 8 => {
                let gateway = dice.pick(&["g2", "g3"]);
                self.voices.insert(gateway);
                (Wish { close: vec![voice(gateway)], ..Wish::default() }, format!(", closing {gateway}"))
            }
            10 | 11 => {
                let free = |it: &Waiting| it.claims.as_ref().is_some_and(|(name, _)| !state.members.contains_key(name));
                let waits = state.waiting.iter().find(|(digest, it)| self.honest.contains(*digest) && free(it));
                match waits {
                    Some((digest, _)) => {
                        (Wish { list: vec![*digest], ..Wish::default() }, format!(", listing {}", short(*digest)))
                    }
                    None => Default::default(),
                }
            }
            _ => Default::default(),
        }
    }

    fn publish(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(by) = self.signers_at(home) else { return };
        let (wish, told) = self.wish(home, dice);
        self.publish_at(home, &by, &wish, &told);
    }

    pub(super) fn publish_at(&mut self, home: usize, by: &[String], wish: &Wish, told: &str) -> Option<Sent> {
        let Ok(Draft { head, leaves, .. }) = draft(&self.replicas[home].1, day(self.now), wish) else { return None };
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let made = format!("head {} of set {}, after {}", head.version, head.signers.version, head.previous.len());
        let sent = self.org.head(head, leaves, &by);
        let (name, digest) = (&self.replicas[home].0, short(sent.digest()));
        self.say(&format!("at {name} {by:?} publish {made}{told} ({digest})"));
        self.hand(home, &sent);
        Some(sent)
    }

    /// They follow an earlier head of theirs instead of the one in force.
    fn go_round(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let Some(by) = self.signers_at(home) else { return };
        let Ok(ground) = self.replicas[home].1.ground(day(self.now)) else { return };
        let in_force = ground.head.as_ref().map(|head| head.digest);
        let ours = |digest: &Digest| !self.forged.contains(digest) && Some(*digest) != in_force;
        let others: Vec<Digest> = ground.reached.iter().copied().filter(ours).collect();
        let Some(around) = dice.choose(&others).copied() else { return };
        let wish = Wish { around: Some(around), ..Wish::default() };
        self.publish_at(home, &by, &wish, &format!(", following {} instead", short(around)));
    }

    /// The old voice is closed where it was recorded, but for whom they choose of what lies beyond; thieves find the old key.
    fn reopen(&mut self, dice: &mut Dice) {
        let home = self.home(dice);
        let (old, Some(new)) = (self.voice_of_g1(), VOICES.get(self.reopened + 1)) else { return };
        let Some(by) = self.signers_at(home) else { return };
        let Ok(state) = self.replicas[home].1.state(day(self.now)) else { return };
        let beyond =
            state.waiting.iter().filter(|(digest, it)| it.voice == voice(old) && self.honest.contains(*digest));
        let free =
            beyond.filter(|(_, it)| it.claims.as_ref().is_some_and(|(name, _)| !state.members.contains_key(name)));
        let list: Vec<Digest> = free.map(|(digest, _)| *digest).filter(|_| dice.below(2) == 0).take(1).collect();
        let told = format!(", reopening g1 as {new}, listing {}", list.len());
        let wish = Wish { close: vec![voice(old)], mandate: vec![mandate("g1", new)], list, ..Wish::default() };
        if self.publish_at(home, &by, &wish, &told).is_some() {
            self.reopened += 1;
            self.voices.insert(old);
        }
    }

    /// Whoever signs for each of two sets that claim one place signs a third one together: it ends that at once.
    fn settle(&mut self, dice: &mut Dice) {
        let at = self.any(dice);
        let replica = &self.replicas[at].1;
        let Signers::Frozen(frozen) = replica.signers(day(self.now)) else { return };
        let by_phrases = replica.steps.values().any(|step| step.word == Word::Recovery);
        if by_phrases || !self.settled.insert(frozen.last.id) {
            return;
        }
        let (rivals, name) = (frozen.rivals, self.fresh("both"));
        let to = self.set_named(frozen.last.version + 2, 1, &[name]);
        let enough = |set: &SignerSet| names(&set.quorum).into_iter().take(set.quorum.threshold()).collect::<Vec<_>>();
        let by: BTreeSet<String> = rivals.iter().flat_map(enough).collect();
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let head = self.org.first.digest();
        let step = self.org.agreed(&rivals.iter().collect::<Vec<_>>(), &to, head, &by);
        self.say(&format!("{by:?} settle at {} that set {} follows both", self.replicas[at].0, to.version));
        self.hand(at, &self.org.first.clone());
        self.hand(at, &step.into());
        if self.set_of(at).as_ref() != Some(&to) {
            self.breaks("L7", "all rivals together do not end a freeze");
        }
    }

    fn rotate(&mut self, dice: &mut Dice) {
        if self.truth.len() > 3 {
            return;
        }
        let Some(set) = self.set_of(0).filter(|set| self.truth.last() == Some(set)) else { return };
        let Some(head) = self.replicas[0].1.ground(day(self.now)).ok().and_then(|ground| ground.head) else { return };
        let operators = names(&set.quorum);
        let is_bob = |name: &&String| name.as_str() == "bob";
        let bob = operators.iter().find(is_bob).filter(|_| self.cast.theft == Theft::Signer).cloned();
        let old = bob.clone().unwrap_or_else(|| dice.choose(&operators).unwrap().clone());
        let mut next: Vec<String> = operators.iter().filter(|name| **name != old).cloned().collect();
        if bob.is_none() || next.is_empty() {
            next.push(self.fresh("s"));
        }
        let by: Vec<String> =
            operators.into_iter().filter(|name| bob.as_ref() != Some(name)).take(set.quorum.threshold()).collect();
        let to = self.set_named(set.version + 1, set.quorum.threshold().min(next.len()), &next);
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let step: Sent = self.org.succession(&set, &to, head.digest, &by).into();
        self.say(&format!("{by:?} replace {old}: set {} is {next:?}", to.version));
        self.truth.push(to);
        self.stolen.insert(old);
        self.hand(0, &step);
        let installed =
            self.signers_at(0).and_then(|by| self.publish_at(0, &by, &Wish::default(), ", the first of its set"));
        // The second home hears of it now, or some day.
        if self.homes > 1 && dice.below(3) > 0 {
            self.hand(1, &step);
            if let Some(head) = installed {
                self.hand(1, &head);
            }
        }
    }

    pub(super) fn set_named(&self, version: u64, threshold: usize, names: &[String]) -> SignerSet {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.org.later(version, threshold, &names)
    }

    fn sign_anew(&mut self, dice: &mut Dice) {
        let Some(by) = self.signers_at(0) else { return };
        let objects = self.replicas[0].1.objects.values();
        let own: Vec<_> = objects.filter(|it| !self.forged.contains(&it.digest())).cloned().collect();
        let Some(envelope) = dice.choose(&own) else { return };
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let told = (envelope.kind().to_owned(), short(envelope.digest()));
        let sent: Sent = signed(envelope.clone(), &by).into();
        self.say(&format!("{by:?} sign the {} {} anew", told.0, told.1));
        self.hand(0, &sent);
    }

    /// A machine whose join code names the newest set.
    fn arrive(&mut self, dice: &mut Dice) {
        if self.replicas.iter().any(|(name, _)| name == "a newcomer") {
            return;
        }
        let floor = self.truth.last().map(SignerSet::as_ref);
        let mut replica = self.org.newcomer(floor);
        if dice.below(2) == 0 {
            super::hear(&mut replica, &self.org.first, self.now);
        }
        self.replicas.push(("a newcomer".to_owned(), replica));
        self.revoked.push(BTreeMap::new());
        self.sets.push(None);
        self.stops.push(super::Stops::default());
        self.say(&format!("a newcomer arrives, whose code names set {}", self.truth.len()));
    }

    /// A gateway is restored without its last entry.
    fn restore(&mut self, dice: &mut Dice) {
        if dice.below(3) > 0 {
            return;
        }
        let replica = &mut self.replicas[self.homes].1;
        let own = VOICES[self.reopened];
        let Some(end) = last(replica, own).map(|signed| signed.digest) else { return };
        let chain = replica.chains.get_mut(&voice(own)).unwrap();
        chain.remove(&end);
        if chain.is_empty() {
            replica.chains.remove(&voice(own));
        }
        self.touched.insert(self.homes);
        self.say("g1 is restored without its last entry");
    }
}

/// It lets nobody in whom not so many have looked at.
pub(super) fn asking(mut invite: Invite, approvers: u8) -> Invite {
    if approvers > 0 {
        (invite.approval, invite.approvers) = (Approval::Human, approvers);
    }
    invite
}

fn has_uses(replica: &Store, gateway: &str, invite: &Invite) -> bool {
    let entries = replica.entries_of(gateway).filter_map(|signed| Evidence::of(replica.org, signed).ok());
    let keys: BTreeSet<_> =
        entries.filter(|it| it.claim.authority.invite() == Some(invite.id)).map(|it| it.key()).collect();
    let right = invite.rights.iter().find(|right| right.voice == voice(gateway)).map(|right| right.uses);
    match right {
        Some(Uses::Limited(most)) => (keys.len() as u64) < u64::from(most),
        Some(Uses::Unlimited) => true,
        None => false,
    }
}
