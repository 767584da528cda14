//! Every way in which a few machines can spend one invite at two gateways: replies get lost, entries travel late, twice
//! or in the wrong order, gateways restart, the invite is revoked. All of them are tried, with the real rules.
//!
//! A scene is what each gateway has on disk, what the operator has heard of, and what each machine holds in its hands.
//! Nothing else is remembered, so a lost reply is an admission in a ledger that no machine holds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;

use crate::enroll::{EnrollOutcome, check_name_is_free};
use crate::invite::admission::ClaimAuthority;
use crate::ledger::entry::Action;
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, claim, invite, key, voice};
use crate::refusal::Refusal;
use crate::state::take::NotTaken;
use crate::state::{MemberRecord, Standing, State};
use crate::tests::world::{Site, invite_id, said};

const GATES: [&str; 2] = ["g1", "g2"];
const ON: u64 = 1;
/// By number, in the order in which they were first made.
type Known = BTreeSet<usize>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scene {
    gateways: [Known; 2],
    operator: Known,
    /// The admission that each machine was handed.
    holds: Vec<Option<usize>>,
    revoked: bool,
}

/// What is played: how many machines, how many uses at each gateway, and whether all machines want one name.
#[derive(Debug, Clone, Copy)]
struct Play {
    machines: u8,
    uses: [u32; 2],
    one_name: bool,
}

struct Stage {
    play: Play,
    org: Org,
    invite: Envelope,
    /// Entries and heads.
    things: Vec<Sent>,
    /// The replica behind every set of things that was ever known somewhere.
    sites: HashMap<Known, Rc<Site>>,
    /// Ways to a set that were gone before.
    steps: HashSet<(Known, usize)>,
    written: HashMap<(Known, u8, usize), Option<usize>>,
    revocations: HashMap<Known, usize>,
    refusals: BTreeSet<&'static str>,
    waiting: usize,
    second_admissions: usize,
}

impl Stage {
    fn new(play: Play) -> (Self, Scene) {
        let org = Org::new(1, &["ann"]);
        let rights: Vec<_> = GATES.into_iter().zip(play.uses).filter(|(_, uses)| *uses > 0).collect();
        let invite = org.seal(&invite("i", &["*"], &rights, 30), &["ann"]);
        let mut site = Site::of(&org);
        site.told(&invite, ON);
        let sites = HashMap::from([(Known::new(), Rc::new(site))]);
        let holds = vec![None; usize::from(play.machines)];
        let none = Known::new();
        let scene = Scene { gateways: [none.clone(), none.clone()], operator: none, holds, revoked: false };
        let stage = Self {
            play,
            org,
            invite,
            things: Vec::new(),
            sites,
            steps: HashSet::new(),
            written: HashMap::new(),
            revocations: HashMap::new(),
            refusals: BTreeSet::new(),
            waiting: 0,
            second_admissions: 0,
        };
        (stage, scene)
    }

    fn site(&self, known: &Known) -> Rc<Site> {
        Rc::clone(&self.sites[known])
    }

    fn name(&self, n: u8) -> String {
        if self.play.one_name { "web".to_owned() } else { format!("web-{n}") }
    }

    fn key(n: u8) -> String {
        format!("k{n}")
    }

    /// `known`, after this arrived too. Whichever way a set was reached, its state is the same.
    fn take(&mut self, known: &Known, thing: usize) -> Known {
        if !self.steps.insert((known.clone(), thing)) {
            return known.iter().copied().chain([thing]).collect();
        }
        let mut site = (*self.site(known)).clone();
        site.hear(&self.things[thing], ON);
        self.meet(known, thing, site)
    }

    fn meet(&mut self, known: &Known, thing: usize, site: Site) -> Known {
        let after: Known = known.iter().copied().chain([thing]).collect();
        if let Some(met) = self.sites.get(&after) {
            assert_eq!(said(&met.state), said(&site.state), "two ways to one set");
        } else {
            self.check_replica(&site);
            self.sites.insert(after.clone(), Rc::new(site));
        }
        after
    }

    fn take_all(&mut self, known: &Known, from: &Known) -> Known {
        let missing: Vec<usize> = from.difference(known).copied().collect();
        let mut at = known.clone();
        for thing in missing {
            let after: Known = at.iter().copied().chain([thing]).collect();
            at = if self.sites.contains_key(&after) { after } else { self.take(&at, thing) };
        }
        at
    }

    // ---- what can happen ----

    fn next(&mut self, scene: &Scene) -> Vec<Scene> {
        let mut out = Vec::new();
        for gateway in 0..GATES.len() {
            for n in 1..=self.play.machines {
                self.join(scene, gateway, n, &mut out);
            }
            for thing in scene.gateways[gateway].difference(&scene.gateways[1 - gateway]).copied().collect::<Vec<_>>() {
                // One thing arrives: others are late, or lost for now.
                let mut next = scene.clone();
                next.gateways[1 - gateway] = self.take(&scene.gateways[1 - gateway], thing);
                out.push(next);
            }
            if !scene.revoked {
                out.push(self.revoke(scene, gateway));
            }
        }
        out
    }

    /// A machine that holds nothing asks; the reply arrives, or is lost.
    fn join(&mut self, scene: &Scene, gateway: usize, n: u8, out: &mut Vec<Scene>) {
        let known = &scene.gateways[gateway];
        let answer = match self.ask(known, gateway, n) {
            Err(refusal) => return self.note(scene, known, n, &refusal),
            Ok(answer) => answer,
        };
        let (after, admission) = match answer {
            Some(again) => (known.clone(), again),
            // Whoever holds an admission has no reason to ask where nobody has heard of it.
            None if scene.holds[usize::from(n) - 1].is_some() => return,
            None => {
                let Some(entry) = self.admit(known, gateway, n) else { return };
                let after = known.iter().copied().chain([entry]).collect();
                (after, entry)
            }
        };
        let again = self.ask(&after, gateway, n);
        assert_eq!(again, Ok(Some(admission)), "a retry gives the same admission and spends nothing");
        let mut lost = scene.clone();
        lost.gateways[gateway] = after;
        let mut arrived = lost.clone();
        arrived.holds[usize::from(n) - 1] = Some(admission);
        out.extend([lost, arrived]);
    }

    /// The gateway's verdict: the admission that it gave, or nothing if it would give one.
    fn ask(&self, known: &Known, gateway: usize, n: u8) -> Result<Option<usize>, Refusal> {
        let site = self.site(known);
        let body = claim(&Self::key(n), &self.name(n), ClaimAuthority::Invite(invite_id("i")));
        let claimed = self.org.seal(&body, &[]).digest();
        match site.ask((GATES[gateway], ON), &body, claimed)? {
            EnrollOutcome::Again { member, .. } => {
                let stands = |thing: &&usize| self.things[**thing].digest() == member.admission.digest;
                Ok(Some(*known.iter().find(stands).expect("it has what it gave")))
            }
            EnrollOutcome::Admit { .. } => {
                let listed = site.state.leaves().and_then(|leaves| leaves.get(&body.name)).map(|leaf| leaf.node_key);
                check_name_is_free(&site.state, &body, listed).map(|()| None)
            }
            EnrollOutcome::Wait { .. } => panic!("nobody must be asked here"),
        }
    }

    /// Written as a gateway writes it. A crash before the commit leaves what was there before: see `check_replica`.
    fn admit(&mut self, known: &Known, gateway: usize, n: u8) -> Option<usize> {
        let written = (known.clone(), n, gateway);
        if let Some(entry) = self.written.get(&written) {
            return *entry;
        }
        let mut site = (*self.site(known)).clone();
        let claim = self.org.claim((&Self::key(n), &self.name(n)), &self.invite, None);
        let action = Action::NodeAdmit { claim, invite: Some(self.invite.clone()), approval: None };
        let entry = match site.write((GATES[gateway], ON), action) {
            Ok(signed) => {
                self.things.push(signed.into());
                let entry = self.things.len() - 1;
                self.meet(known, entry, site);
                Some(entry)
            }
            // Another waits under the name, whom nobody has seated.
            Err(NotTaken::Waits(Why::Contested)) if self.play.one_name => {
                self.refusals.insert("contested");
                None
            }
            Err(other) => panic!("a gateway that says yes writes what counts: {other}"),
        };
        self.written.insert(written, entry);
        entry
    }

    /// The operator looks at what one gateway has, and revokes the invite there.
    fn revoke(&mut self, scene: &Scene, gateway: usize) -> Scene {
        let seen = self.take_all(&scene.operator, &scene.gateways[gateway]);
        let head = if let Some(head) = self.revocations.get(&seen) {
            *head
        } else {
            let mut site = (*self.site(&seen)).clone();
            let wish = Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() };
            let sent = site.publish(&self.org, (ON, &["ann"]), &wish);
            self.things.push(sent);
            self.revocations.insert(seen.clone(), self.things.len() - 1);
            self.things.len() - 1
        };
        let mut next = Scene { revoked: true, ..scene.clone() };
        next.operator = self.take(&seen, head);
        next.gateways[gateway] = self.take_all(&scene.gateways[gateway], &next.operator);
        next
    }

    // ---- what must hold ----

    /// A refusal is one of a few, and each has its reason.
    fn note(&mut self, scene: &Scene, known: &Known, n: u8, refusal: &Refusal) {
        let site = self.site(known);
        let word = match refusal {
            Refusal::InviteUsedUp { .. } => "used up",
            Refusal::InviteNotHere => "not here",
            Refusal::InviteRevoked => {
                assert!(scene.revoked && site.state.revoked().invite_is_revoked(invite_id("i")));
                "revoked"
            }
            Refusal::Waiting => {
                self.check_waits(&site, n);
                "waiting"
            }
            Refusal::NameTaken { .. } => {
                assert!(self.play.one_name);
                "name taken"
            }
            other => panic!("{n} was refused: {other}"),
        };
        self.refusals.insert(word);
    }

    /// A machine waits only where the invite was revoked by somebody who had heard of none of its admissions, where another
    /// wants its name, or where a part of its gateway's chain has not come yet.
    fn check_waits(&self, site: &Site, n: u8) {
        let member = site.member(&Self::key(n)).expect("who waits was let in");
        let revoked = site.state.revoked().invite_is_revoked(invite_id("i"));
        match member.why.as_ref().expect("it waits without a reason") {
            Why::Contested | Why::Passed | Why::Judged(NotMember::NameOfAnother { .. }) => {
                assert!(self.play.one_name);
            }
            Why::Judged(NotMember::Invite(_)) => assert!(revoked),
            Why::Judged(NotMember::NotLinked) => {
                let known = site.state.replica.chains[&member.admission.voice].len() as u64;
                assert!(known < member.admission.seq || revoked, "all of its chain is here");
            }
            other => panic!("it waits, since {other}"),
        }
    }

    /// For every set of things that anybody ever has: never over-spent, and a restart changes nothing.
    fn check_replica(&self, site: &Site) {
        let mut things = site.holdings();
        things.extend(site.holdings());
        things.sort_by_key(Sent::digest);
        assert_eq!(
            said(&site.afresh(&self.org.founding, &things, ON)),
            said(&site.state),
            "afresh, twice, in any order"
        );
        assert!(site.state.judged.fold.forks.is_empty());
        let record = site.invite("i");
        let mut by_voice: BTreeMap<PublicKey, u32> = BTreeMap::new();
        for voice in record.spent.values() {
            *by_voice.entry(*voice).or_default() += 1;
        }
        for (gateway, uses) in GATES.into_iter().zip(self.play.uses) {
            assert!(by_voice.get(&voice(gateway)).copied().unwrap_or(0) <= uses, "{gateway} spent too much");
        }
        let own = |member: &&MemberRecord| counts(&site.state, member) && member.admission.digest != Digest([9; 32]);
        let counted = site.state.members.values().filter(own).count();
        assert!(counted <= self.play.uses.iter().sum::<u32>() as usize, "{counted} machines came in");
    }

    /// After everybody has heard everything.
    fn check_merged(&mut self, scene: &Scene) {
        let one = self.take_all(&scene.gateways[0], &scene.gateways[1]);
        let one = self.take_all(&one, &scene.operator);
        let other = self.take_all(&scene.gateways[1], &scene.gateways[0]);
        let other = self.take_all(&other, &scene.operator);
        assert_eq!(one, other, "both have everything");
        let site = self.site(&one);
        for (n, held) in (1..).zip(&scene.holds) {
            let Some(held) = held else { continue };
            let member = &site.state.members[&key(&Self::key(n))];
            assert!(member.was_given(self.things[*held].digest()), "what it holds is still known as its own");
            self.second_admissions += usize::from(!member.others.is_empty());
            if counts(&site.state, member) {
                assert!(matches!(self.ask(&one, 0, n), Ok(Some(_))), "it is let in again");
            } else {
                assert!(!matches!(member.why, Some(Why::Judged(NotMember::NotLinked))), "nothing is missing");
                self.check_waits(&site, n);
                assert_eq!(self.ask(&one, 0, n), Err(Refusal::Waiting));
                self.waiting += 1;
            }
        }
    }
}

fn counts(state: &State, member: &MemberRecord) -> bool {
    matches!(state.standing(member), Standing::Issued | Standing::Member)
}

/// Plays everything, depth first; gives the number of scenes.
fn explore(play: Play) -> (Stage, usize) {
    let (mut stage, first) = Stage::new(play);
    let (mut open, mut met) = (vec![first.clone()], HashSet::from([first]));
    while let Some(scene) = open.pop() {
        stage.check_merged(&scene);
        for next in stage.next(&scene) {
            if met.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    let (sets, things) = (stage.sites.len(), stage.things.len());
    println!("{play:?}: {} scenes, {sets} ledgers, {things} things, {:?}", met.len(), stage.refusals);
    (stage, met.len())
}

fn check(play: Play, at_least: usize, refusals: &[&str]) -> Stage {
    let (stage, scenes) = explore(play);
    assert!(scenes >= at_least, "only {scenes} scenes: the model has shrunk");
    assert_eq!(stage.refusals, refusals.iter().copied().collect());
    stage
}

const USUAL: [&str; 3] = ["revoked", "used up", "waiting"];

#[test]
fn two_machines_and_a_use_at_each_gateway() {
    let stage = check(Play { machines: 2, uses: [1, 1], one_name: false }, 646, &USUAL);
    assert!(stage.waiting > 0 && stage.second_admissions > 0, "the odd cases were met");
}

#[test]
fn three_machines_want_two_uses() {
    check(Play { machines: 3, uses: [1, 1], one_name: false }, 1_555, &USUAL);
}

#[test]
fn three_machines_want_two_uses_here_and_one_there() {
    check(Play { machines: 3, uses: [2, 1], one_name: false }, 19_711, &USUAL);
}

#[test]
fn two_machines_have_more_uses_than_they_need() {
    check(Play { machines: 2, uses: [2, 2], one_name: false }, 17_352, &["revoked", "waiting"]);
}

#[test]
fn a_gateway_without_a_right_lets_nobody_in() {
    check(Play { machines: 3, uses: [2, 0], one_name: false }, 766, &["not here", "revoked", "used up", "waiting"]);
}

#[test]
fn two_machines_want_one_name() {
    check(Play { machines: 2, uses: [1, 1], one_name: true }, 470, &["name taken", "revoked", "used up", "waiting"]);
}
