//! What a gateway makes of its own entries one by one is what everybody else makes of them all at once, in any order.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::time::Seconds;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, proptest};

use super::world::{Site, Turned, said};
use crate::invite::approve::{Decision, Verdict as Word};
use crate::invite::{Approval, Invite};
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{FRESH, Org, Sent, day, invite, key, mandate, node, voice};
use crate::suspend::Suspension;

const NAMES: [&str; 4] = ["x", "y", "z", "alpha"];
const KEYS: [&str; 6] = ["ka", "k1", "k2", "k3", "k4", "k5"];
const INVITES: [&str; 4] = ["i0", "i1", "i2", "i3"];

#[derive(Debug, Clone, Copy)]
enum Act {
    Invite {
        id: usize,
        uses: u32,
        human: bool,
    },
    /// As an honest gateway lets somebody in.
    Admit {
        at: usize,
        key: usize,
        name: usize,
        id: usize,
    },
    /// The same without asking anything first: only the last question is left.
    Insist {
        at: usize,
        key: usize,
        name: usize,
        id: usize,
    },
    HandOn {
        at: usize,
        key: usize,
        old: usize,
        name: usize,
        id: usize,
    },
    Word {
        at: usize,
        key: usize,
        name: usize,
    },
    Join {
        at: usize,
        key: usize,
    },
    Leave {
        at: usize,
        key: usize,
    },
    Decide {
        id: usize,
        key: usize,
        name: usize,
        yes: bool,
    },
    Suspend {
        key: usize,
    },
    Publish {
        wish: usize,
        key: usize,
    },
    Install,
    Meet {
        from: usize,
        to: usize,
    },
    /// A gateway loses what it wrote last, and goes on.
    Restore {
        at: usize,
    },
    Wait {
        days: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let (at, key, name, id) = (0..2_usize, 0..KEYS.len(), 0..NAMES.len(), 0..INVITES.len());
    let who = (at.clone(), key.clone(), name.clone(), id.clone());
    prop::strategy::Union::new_weighted(vec![
        (3, (id.clone(), 1..4_u32, 0..4_u8).prop_map(|(id, uses, h)| Act::Invite { id, uses, human: h == 0 }).boxed()),
        (6, who.clone().prop_map(|(at, key, name, id)| Act::Admit { at, key, name, id }).boxed()),
        (4, who.clone().prop_map(|(at, key, name, id)| Act::Insist { at, key, name, id }).boxed()),
        (2, (who, key.clone()).prop_map(|((at, key, name, id), old)| Act::HandOn { at, key, old, name, id }).boxed()),
        (1, (at.clone(), key.clone(), name.clone()).prop_map(|(at, key, name)| Act::Word { at, key, name }).boxed()),
        (2, (at.clone(), key.clone()).prop_map(|(at, key)| Act::Join { at, key }).boxed()),
        (1, (at.clone(), key.clone()).prop_map(|(at, key)| Act::Leave { at, key }).boxed()),
        (
            1,
            (id, key.clone(), name, any::<bool>())
                .prop_map(|(id, key, name, yes)| Act::Decide { id, key, name, yes })
                .boxed(),
        ),
        (1, key.clone().prop_map(|key| Act::Suspend { key }).boxed()),
        (3, (0..6_usize, key).prop_map(|(wish, key)| Act::Publish { wish, key }).boxed()),
        (1, prop::strategy::Just(Act::Install).boxed()),
        (6, (0..3_usize, 0..3_usize).prop_map(|(from, to)| Act::Meet { from, to }).boxed()),
        (1, at.prop_map(|at| Act::Restore { at }).boxed()),
        (1, (1..20_u64).prop_map(|days| Act::Wait { days }).boxed()),
    ])
}

/// Two gateways and a home, which signs for whoever is in force there.
struct Play {
    org: Org,
    sites: [Site; 3],
    now: u64,
    made: Vec<Option<Envelope>>,
    order: Vec<u16>,
}

const GATES: [&str; 2] = ["g1", "g2"];
const HOME: usize = 2;

impl Play {
    fn new(order: Vec<u16>) -> Self {
        let org = Org::new(1, &["ann"]);
        let sites = [Site::of(&org), Site::of(&org), Site::of(&org)];
        Self { org, sites, now: 1, made: vec![None; INVITES.len()], order }
    }

    fn signer(&self) -> String {
        self.sites[HOME].state.signer_set().quorum.signers()[0].name.as_str().to_owned()
    }

    fn play(&mut self, act: Act) {
        let by = self.signer();
        let by: &[&str] = &[&by];
        match act {
            Act::Invite { id, uses, human } => {
                let mut body: Invite = invite(INVITES[id], &NAMES, &[("g1", uses), ("g2", uses)], self.now + FRESH);
                body.approval = if human { Approval::Human } else { Approval::None };
                let made = self.made[id].clone().unwrap_or_else(|| self.org.seal(&body, by));
                let made = crate::ledger::tests::world::signed(made, by);
                self.made[id] = Some(made.clone());
                self.sites[HOME].told(&made, self.now);
                self.sites[id % 2].handed((GATES[id % 2], self.now), &made.into());
                self.look(id % 2);
            }
            Act::Admit { at, key, name, id } => {
                let Some(invite) = self.made[id].clone() else { return };
                let claim = self.org.claim((KEYS[key], NAMES[name]), &invite, None);
                let known = self.sites[at].state.members.contains_key(&crate::ledger::tests::world::key(KEYS[key]));
                if !known {
                    let done = self.sites[at].admit((GATES[at], self.now), &claim);
                    self.took(at, done.as_ref().ok());
                    assert!(!matches!(done, Err(Turned::NotTaken(_))) || self.may_refuse(at), "{done:?}");
                }
            }
            Act::Insist { at, key, name, id } => {
                let Some(invite) = self.made[id].clone() else { return };
                let claim = self.org.claim((KEYS[key], NAMES[name]), &invite, None);
                self.insist(at, Action::NodeAdmit { claim, invite: Some(invite), approval: None });
            }
            Act::HandOn { at, key, old, name, id } => {
                let (Some(invite), true) = (self.made[id].clone(), key != old) else { return };
                let claim = self.org.claim((KEYS[key], NAMES[name]), &invite, Some(KEYS[old]));
                self.insist(at, Action::NodeAdmit { claim, invite: Some(invite), approval: None });
            }
            Act::Word { at, key, name } => {
                let claim = self.org.word((KEYS[key], NAMES[name]), self.now + 5, by);
                self.insist(at, Action::NodeAdmit { claim, invite: None, approval: None });
            }
            Act::Join { at, key } => {
                self.sites[at].join((GATES[at], self.now), (KEYS[key], "x"));
                self.look(at);
            }
            Act::Leave { at, key } => {
                self.sites[at].leave(&self.org, (GATES[at], self.now), (KEYS[key], "x"));
                self.look(at);
            }
            Act::Decide { id, key, name, yes } => {
                let Some(invite) = self.made[id].clone() else { return };
                let about = self.org.claim((KEYS[key], NAMES[name]), &invite, None).digest();
                let verdict = if yes { Word::Approve } else { Word::Deny };
                let until = Some(day(self.now + 4));
                let said = self.org.seal(&Decision { about, verdict, until }, by);
                self.sites[0].handed((GATES[0], self.now), &said.into());
                self.look(0);
            }
            Act::Suspend { key } => {
                let (at, until) = (day(self.now), day(self.now) + Seconds::HOUR);
                let node_key = crate::ledger::tests::world::key(KEYS[key]);
                let body = Suspension { node_key, name: node("x"), at, until, reason: "odd".to_owned() };
                let said = self.org.seal(&body, by);
                self.sites[1].handed((GATES[1], self.now), &said.into());
                self.look(1);
            }
            Act::Publish { wish, key } => self.publish(wish, key, by),
            Act::Install => {
                let version = self.sites[HOME].state.signer_set().version + 1;
                let name = format!("s{version}");
                let sent = self.sites[HOME].install(&self.org, self.now, (version, &[&name]), by);
                self.sites[0].hear_all(&sent, self.now);
            }
            Act::Meet { from, to } => {
                let things = self.sites[from].holdings();
                self.sites[to].hear_all(&things, self.now);
            }
            Act::Restore { at } => {
                let now = self.now;
                let last = self.sites[at].state.frontier.place_of(&voice(GATES[at])).map(|place| place.digest);
                let kept = |sent: &Sent| Some(sent.digest()) != last;
                let kept: Vec<Sent> = self.sites[at].holdings().into_iter().filter(kept).collect();
                let sights = self.sites[at].state.replica.sights.clone();
                self.sites[at] = Site::newcomer(&self.org.founding);
                self.sites[at].state.replica.sights = sights;
                self.sites[at].hear_all(&kept, now);
            }
            Act::Wait { days } => {
                self.now += days;
                self.sites.iter_mut().for_each(|site| site.state.conclude(day(self.now)));
            }
        }
    }

    fn publish(&mut self, wish: usize, at: usize, by: &[&str]) {
        let wish = match wish {
            0 => Wish { revoke_keys: vec![key(KEYS[at])], ..Wish::default() },
            1 => {
                let waiting = self.sites[HOME].state.judged.fold.waiting.keys();
                Wish { list: waiting.copied().cycle().skip(at).take(1).collect(), ..Wish::default() }
            }
            2 => Wish { close: vec![voice("g2")], ..Wish::default() },
            3 => Wish { mandate: vec![mandate("g3", "g3-anew")], ..Wish::default() },
            _ => Wish::default(),
        };
        let sent = self.sites[HOME].publish(&self.org, (self.now, by), &wish);
        for site in &mut self.sites[..2] {
            site.hear(&sent, self.now);
        }
    }

    fn insist(&mut self, at: usize, action: Action) {
        let before = said(&self.sites[at].state);
        let done = self.sites[at].write((GATES[at], self.now), action);
        if done.is_err() {
            assert_eq!(said(&self.sites[at].state), before, "what was not taken changed something");
        }
        self.took(at, done.as_ref().ok());
    }

    /// It never takes what would wait, except a name that its key hands on.
    fn took(&self, at: usize, taken: Option<&SignedEntry>) {
        self.look(at);
        let Some(signed) = taken else { return };
        let state = &self.sites[at].state;
        let waits = state.judged.fold.waiting.get(&signed.digest);
        let handed = state.judged.fold.handed.values().any(|heir| heir.admission == signed.digest);
        assert!(waits.is_none() || handed, "taken, and waits: {waits:?}");
    }

    /// An honest gateway asks first; what it does not ask is whether its own chain, voice and mandate are in order.
    fn may_refuse(&self, at: usize) -> bool {
        let state = &self.sites[at].state;
        let voice = voice(GATES[at]);
        state.judged.fold.forks.contains_key(&voice)
            || state.judged.ground.mandate(voice).is_none()
            || state.judged.fold.ends.get(&voice).copied() != state.frontier.place_of(&voice)
            || state.leaves().is_none()
            || !state.judged.fold.whole.contains(&voice)
    }

    /// What this gateway believes is what anybody would who hears the same in another order.
    fn look(&self, at: usize) {
        let site = &self.sites[at];
        let mut things = site.holdings();
        let rank = |at: usize, digest: Digest| (self.order.get(at).copied().unwrap_or_default(), digest);
        let mut ranked: Vec<_> = things.drain(..).enumerate().collect();
        ranked.sort_by_key(|(at, sent)| rank(*at, sent.digest()));
        let things: Vec<Sent> = ranked.into_iter().map(|(_, sent)| sent).collect();
        let afresh = site.afresh(&self.org.founding, &things, self.now);
        assert_eq!(said(&site.state), said(&afresh));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 3))]

    #[test]
    fn one_by_one_or_all_at_once_in_any_order_is_the_same(
        acts in prop::collection::vec(act(), 1..40),
        order in prop::collection::vec(any::<u16>(), 0..60),
    ) {
        let mut play = Play::new(order);
        for act in acts {
            play.play(act);
            (0..3).for_each(|at| play.look(at));
        }
    }
}
