//! Every way in which a few machines can spend one invite at two gateways: replies get lost, entries travel late, twice
//! or in the wrong order, gateways restart, the invite is revoked. All of them are tried, with the real rules.
//!
//! A scene is what each gateway has on disk, what the operator has heard of, and what each machine holds in its hands.
//! Nothing else is remembered, so a lost reply is an admission in a ledger that no machine holds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use identity::head::InviteCut;
use identity::id::{Correlation, InviteId};
use identity::key::Sign as _;
use identity::principal::Author;

use super::world::{GATEWAYS, NOW, World, author, ed, node, node_key, shuffled};
use crate::derived;
use crate::enroll::{Attempt, Verdict, check_name_is_free, consider};
use crate::entry::{Action, Cause, SignedEntry};
use crate::fold::fold_opened;
use crate::refusal::Refusal;
use crate::state::{MemberRecord, Standing, State};

const INVITE: u8 = 1;
/// By number, in the order in which they were first written.
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
    world: World,
    entries: Vec<SignedEntry>,
    /// The state behind every set of entries that was ever known somewhere.
    states: HashMap<Known, Rc<State>>,
    /// What one more entry makes of a set; nothing where it does not fit.
    steps: HashMap<(Known, usize), Option<Known>>,
    written: HashMap<(Known, u8, usize), usize>,
    revocations: HashMap<Known, usize>,
    refusals: BTreeSet<&'static str>,
    waiting: usize,
    second_admissions: usize,
}

impl Stage {
    fn new(play: Play) -> (Self, Scene) {
        let mut world = World::new(1, &["ann"]);
        world.invite("ann", INVITE, play.uses);
        world.share();
        let entries = world.log.clone();
        let all: Known = (0..entries.len()).collect();
        let states = HashMap::from([(all.clone(), Rc::new(world.view("gw-1").clone()))]);
        let holds = vec![None; usize::from(play.machines)];
        let scene = Scene { gateways: [all.clone(), all.clone()], operator: all, holds, revoked: false };
        let stage = Self {
            play,
            world,
            entries,
            states,
            steps: HashMap::new(),
            written: HashMap::new(),
            revocations: HashMap::new(),
            refusals: BTreeSet::new(),
            waiting: 0,
            second_admissions: 0,
        };
        (stage, scene)
    }

    fn state(&self, known: &Known) -> Rc<State> {
        Rc::clone(&self.states[known])
    }

    fn name(&self, n: u8) -> String {
        if self.play.one_name { "web".to_owned() } else { format!("web-{n}") }
    }

    /// `known`, after the entry arrived too. Whichever way a set was reached, its state is the same.
    fn take(&mut self, known: &Known, entry: usize) -> Option<Known> {
        let step = (known.clone(), entry);
        if let Some(after) = self.steps.get(&step) {
            return after.clone();
        }
        let before = self.state(known);
        let mut state = (*before).clone();
        let after = if state.apply(&self.entries[entry]).is_ok() {
            let after: Known = known.iter().copied().chain([entry]).collect();
            if let Some(met) = self.states.get(&after) {
                assert_eq!(**met, state, "two ways to one set");
            } else {
                self.check_replica(&after, &state);
                self.states.insert(after.clone(), Rc::new(state));
            }
            Some(after)
        } else {
            assert_eq!(state, *before, "what does not fit changes nothing");
            None
        };
        self.steps.insert(step, after.clone());
        after
    }

    /// All that `from` has, in whatever order it fits.
    fn take_all(&mut self, known: &Known, from: &Known) -> Known {
        let mut at = known.clone();
        loop {
            let missing: Vec<usize> = from.difference(&at).copied().collect();
            let next = missing.iter().find_map(|entry| self.take(&at, *entry));
            let Some(next) = next else {
                assert!(missing.is_empty(), "something never fits");
                return at;
            };
            at = next;
        }
    }

    // ---- what can happen ----

    fn next(&mut self, scene: &Scene) -> Vec<Scene> {
        let mut out = Vec::new();
        for gateway in 0..GATEWAYS.len() {
            for n in 1..=self.play.machines {
                self.join(scene, gateway, n, &mut out);
            }
            for entry in scene.gateways[gateway].difference(&scene.gateways[1 - gateway]).copied().collect::<Vec<_>>() {
                // One entry arrives, if it fits: others are late, or lost for now.
                if let Some(known) = self.take(&scene.gateways[1 - gateway], entry) {
                    let mut next = scene.clone();
                    next.gateways[1 - gateway] = known;
                    out.push(next);
                }
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
        let held = &scene.holds[usize::from(n) - 1];
        let answer = match self.ask(known, gateway, n) {
            Err(refusal) => return self.note(scene, known, n, &refusal),
            Ok(answer) => answer,
        };
        let (after, admission) = match answer {
            Some(again) => (known.clone(), again),
            // Whoever holds an admission has no reason to ask where nobody has heard of it.
            None if held.is_some() => return,
            None => {
                let entry = self.admit(known, gateway, n);
                (self.take(known, entry).expect("a gateway's own entry fits"), entry)
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
        let (state, claim) = (self.state(known), World::claim(n, INVITE, &self.name(n)));
        let here = node(GATEWAYS[gateway]);
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match consider(
            &state,
            Attempt { claim: &claim, claimed: identity::id::Digest([0; 32]), source, gateway: &here, now: NOW },
        )? {
            Verdict::Again { member, .. } => {
                let stands = |entry: &&usize| self.entries[**entry].digest == member.admission.entry_digest;
                Ok(Some(*known.iter().find(stands).expect("it has what it gave")))
            }
            Verdict::Admit { .. } => check_name_is_free(&state, &claim, None).map(|()| None),
            Verdict::Wait { .. } => panic!("nobody must be asked here"),
        }
    }

    /// Written as a gateway writes it. A crash before the commit leaves what was there before: see `check_replica`.
    fn admit(&mut self, known: &Known, gateway: usize, n: u8) -> usize {
        let key = (known.clone(), n, gateway);
        if let Some(entry) = self.written.get(&key) {
            return *entry;
        }
        let who = GATEWAYS[gateway];
        let action = self.world.admission(who, n, INVITE, &self.name(n));
        let entry = self.write(who, known, action);
        let mut state = (*self.state(known)).clone();
        assert_eq!(state.apply(&self.entries[entry]), Ok(Ok(())), "a gateway that says yes writes what counts");
        self.written.insert(key, entry);
        entry
    }

    fn write(&mut self, who: &str, known: &Known, action: Action) -> usize {
        let (org, moment) = (self.world.founding.id, (NOW, Correlation([0; 8])));
        let written =
            SignedEntry::write(org, (&self.state(known).frontier, 1), (author(who), &ed(who)), moment, action);
        self.entries.push(written.unwrap());
        self.entries.len() - 1
    }

    /// The operator looks at what one gateway has, and revokes the invite there.
    fn revoke(&mut self, scene: &Scene, gateway: usize) -> Scene {
        let seen = self.take_all(&scene.operator, &scene.gateways[gateway]);
        let entry = if let Some(entry) = self.revocations.get(&seen) {
            *entry
        } else {
            let (state, invite) = (self.state(&seen), InviteId([INVITE; 16]));
            let mut head = state.head().unwrap().head.clone();
            head.version += 1;
            head.revocations.invites.insert(InviteCut { invite, seen: state.frontier.cuts() });
            let head = self.world.sealed(&head, &["ann"]);
            let entry = self.write("ann", &seen, Action::HeadPublish { head, cause: Cause::InviteRevoke { invite } });
            self.revocations.insert(seen.clone(), entry);
            entry
        };
        let mut next = Scene { revoked: true, ..scene.clone() };
        next.operator = self.take(&seen, entry).expect("the operator's own entry fits");
        next.gateways[gateway] = self.take_all(&scene.gateways[gateway], &next.operator);
        next
    }

    // ---- what must hold ----

    /// A refusal is one of a few, and each has its reason.
    fn note(&mut self, scene: &Scene, known: &Known, n: u8, refusal: &Refusal) {
        let state = self.state(known);
        let word = match refusal {
            Refusal::InviteUsedUp { .. } => "used up",
            Refusal::InviteNotHere => "not here",
            Refusal::InviteRevoked => {
                assert!(scene.revoked && state.revocations.invite_is_revoked(InviteId([INVITE; 16])));
                "revoked"
            }
            Refusal::Waiting => {
                self.check_waits(&state, n);
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

    /// A machine waits only where the invite was revoked by somebody who had not heard of any of its admissions, or
    /// where another machine holds its name.
    fn check_waits(&self, state: &State, n: u8) {
        let member = state.member(&node_key(n).public()).expect("who waits was admitted");
        if member.outrun {
            let holder = state.holder(&member.claim().name).expect("somebody outran it");
            assert!(self.play.one_name && holder.claim().node_key != member.claim().node_key);
            return;
        }
        for admission in std::iter::once(&member.admission).chain(&member.rivals) {
            let unseen = |cut: &InviteCut| {
                !cut.seen.iter().any(|at| at.author == admission.entry.author && at.seq >= admission.entry.seq)
            };
            assert!(state.revocations.invites.iter().any(unseen), "it waits without a reason");
        }
    }

    /// For every set of entries that anybody ever has: never over-spent, and a restart changes nothing.
    fn check_replica(&self, known: &Known, state: &State) {
        let on_disk = known.iter().map(|entry| self.entries[*entry].clone());
        let heap = shuffled(on_disk.clone().chain(on_disk).collect(), &[7, 3, 9, 1, 8, 2, 6]);
        let folded = fold_opened(&self.world.founding, heap);
        assert!(folded.forks.is_empty() && folded.unplaced.is_empty());
        assert_eq!(folded.state, *state, "folded afresh, out of order and twice");
        let rows = derived::rows(state);
        assert_eq!(derived::restore(&self.world.founding, &rows).as_ref(), Ok(state), "restarted from its rows");
        let (_, record) = state.invite(InviteId([INVITE; 16])).expect("everybody knows the invite");
        let mut by_gateway: BTreeMap<&Author, u32> = BTreeMap::new();
        for spend in record.spent.values().flatten() {
            *by_gateway.entry(&spend.by.author).or_default() += 1;
        }
        for (gateway, uses) in GATEWAYS.into_iter().zip(self.play.uses) {
            assert!(by_gateway.get(&author(gateway)).copied().unwrap_or(0) <= uses, "{gateway} spent too much");
        }
        let counted = state.members.values().filter(|member| counts(state, member)).count();
        assert!(counted <= self.play.uses.iter().sum::<u32>() as usize, "{counted} machines came in");
    }

    /// After everybody has heard everything.
    fn check_merged(&mut self, scene: &Scene) {
        let one = self.take_all(&scene.gateways[0], &scene.gateways[1]);
        let one = self.take_all(&one, &scene.operator);
        let other = self.take_all(&scene.gateways[1], &scene.gateways[0]);
        let other = self.take_all(&other, &scene.operator);
        assert_eq!(one, other, "both have everything");
        let state = self.state(&one);
        for (n, held) in (1..).zip(&scene.holds) {
            let Some(held) = held else { continue };
            let member = state.member(&node_key(n).public()).expect("who was admitted stays known");
            let Action::NodeAdmit { admission } = &self.entries[*held].entry.action else { panic!("not an admission") };
            assert!(member.was_given(admission.digest()), "what it holds still counts");
            self.second_admissions += usize::from(!member.rivals.is_empty());
            if counts(&state, member) {
                assert!(matches!(self.ask(&one, 0, n), Ok(Some(_))), "it is let in again");
            } else {
                self.check_waits(&state, n);
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
    let (sets, entries) = (stage.states.len(), stage.entries.len());
    println!("{play:?}: {} scenes, {sets} ledgers, {entries} entries, {:?}", met.len(), stage.refusals);
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
    let stage = check(Play { machines: 2, uses: [1, 1], one_name: false }, 538, &USUAL);
    assert!(stage.waiting > 0 && stage.second_admissions > 0, "the odd cases were met");
}

#[test]
fn three_machines_want_two_uses() {
    check(Play { machines: 3, uses: [1, 1], one_name: false }, 1_297, &USUAL);
}

#[test]
fn three_machines_want_two_uses_here_and_one_there() {
    check(Play { machines: 3, uses: [2, 1], one_name: false }, 11_029, &USUAL);
}

#[test]
fn two_machines_have_more_uses_than_they_need() {
    check(Play { machines: 2, uses: [2, 2], one_name: false }, 7_096, &["revoked", "waiting"]);
}

#[test]
fn a_gateway_without_a_right_lets_nobody_in() {
    check(Play { machines: 3, uses: [2, 0], one_name: false }, 496, &["not here", "revoked", "used up", "waiting"]);
}

#[test]
fn two_machines_want_one_name() {
    check(Play { machines: 2, uses: [1, 1], one_name: true }, 378, &["name taken", "revoked", "used up", "waiting"]);
}
