//! The laws of the fold, over random concurrent histories.

use identity::id::InviteId;
use identity::principal::Author;
use identity::time::Seconds;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::world::{GATEWAYS, NOW, PATTERN, World, author, quorum, shuffled};
use crate::derived;
use crate::entry::{Action, Cause, Entry, SignedEntry};
use crate::fold::fold_opened;
use crate::invite::Uses;
use crate::restore::Confirmation;
use crate::state::State;

/// One thing that happens. Whoever does it knows only what it has heard of.
#[derive(Debug, Clone)]
pub enum Step {
    Invite {
        signer: usize,
        invite: u8,
        uses: [u32; 2],
    },
    Refresh {
        signer: usize,
    },
    RevokeNode {
        signer: usize,
        node: u8,
    },
    RevokeInvite {
        signer: usize,
        invite: u8,
    },
    Succeed {
        signer: usize,
        third: usize,
    },
    Admit {
        gateway: usize,
        node: u8,
        invite: u8,
        name: usize,
    },
    /// A machine that was reinstalled: its old key signs, too.
    Replace {
        gateway: usize,
        node: u8,
        old: u8,
        invite: u8,
        name: usize,
    },
    Join {
        gateway: usize,
        node: u8,
    },
    Leave {
        gateway: usize,
        node: u8,
    },
    Learn {
        who: usize,
        from: usize,
    },
    Suspend {
        signer: usize,
        node: u8,
        hours: u64,
        hides: bool,
    },
    Recover {
        gateway: usize,
        third: usize,
    },
    /// One of those whom the recovery keys named, too early or not.
    TakeOver {
        who: usize,
        late: bool,
    },
    Confirm {
        signer: usize,
        invite: u8,
        epoch: u32,
    },
    /// An entry whose author hides most of what it has seen.
    Hide {
        gateway: usize,
        node: u8,
        invite: u8,
    },
}

const SIGNERS: [&str; 2] = ["ann", "ben"];
/// Whoever may write an entry in these histories.
pub const EVERYBODY: [&str; 6] = ["ann", "ben", "gw-1", "gw-2", "yan", "zoe"];
const NAMES: [&str; 3] = ["web", "db", "mail"];
const THIRDS: [&str; 2] = ["cat", "dan"];
/// Named by recoveries.
pub const HEIRS: [&str; 2] = ["yan", "zoe"];

fn step() -> impl Strategy<Value = Step> {
    let (signer, gateway, node) = (0..2_usize, 0..2_usize, 1..5_u8);
    let invite = prop_oneof![3 => 1..4_u8, 1 => Just(PATTERN)];
    prop_oneof![
        3 => (signer.clone(), invite.clone(), prop::array::uniform2(0..3_u32))
            .prop_map(|(signer, invite, uses)| Step::Invite { signer, invite, uses }),
        1 => signer.clone().prop_map(|signer| Step::Refresh { signer }),
        1 => (signer.clone(), node.clone()).prop_map(|(signer, node)| Step::RevokeNode { signer, node }),
        1 => (signer.clone(), invite.clone()).prop_map(|(signer, invite)| Step::RevokeInvite { signer, invite }),
        1 => (signer.clone(), 0..2_usize).prop_map(|(signer, third)| Step::Succeed { signer, third }),
        2 => (signer.clone(), node.clone(), 0..30_u64, any::<bool>())
            .prop_map(|(signer, node, hours, hides)| Step::Suspend { signer, node, hours, hides }),
        1 => (gateway.clone(), 0..2_usize).prop_map(|(gateway, third)| Step::Recover { gateway, third }),
        2 => (0..4_usize, prop::bool::weighted(0.8)).prop_map(|(who, late)| Step::TakeOver { who, late }),
        1 => (signer, invite.clone(), 1..3_u32)
            .prop_map(|(signer, invite, epoch)| Step::Confirm { signer, invite, epoch }),
        6 => (gateway.clone(), node.clone(), invite.clone(), 0..3_usize)
            .prop_map(|(gateway, node, invite, name)| Step::Admit { gateway, node, invite, name }),
        3 => (gateway.clone(), node.clone(), node.clone(), invite.clone(), 0..3_usize)
            .prop_map(|(gateway, node, old, invite, name)| Step::Replace { gateway, node, old, invite, name }),
        1 => (gateway.clone(), node.clone()).prop_map(|(gateway, node)| Step::Join { gateway, node }),
        2 => (gateway.clone(), node.clone()).prop_map(|(gateway, node)| Step::Leave { gateway, node }),
        6 => (0..6_usize, 0..6_usize).prop_map(|(who, from)| Step::Learn { who, from }),
        1 => (gateway, node, invite).prop_map(|(gateway, node, invite)| Step::Hide { gateway, node, invite }),
    ]
}

/// A world in which those steps happened.
pub fn history() -> impl Strategy<Value = World> {
    let opening = Just([Step::Invite { signer: 0, invite: 1, uses: [2, 1] }, Step::Learn { who: 2, from: 0 }]);
    (opening, prop::collection::vec(step(), 1..28)).prop_map(|(opening, steps)| {
        let mut world = World::new(1, &SIGNERS);
        for heir in HEIRS {
            world.welcome(heir);
            world.learn(heir, "ann");
        }
        for step in opening.iter().chain(&steps) {
            take(&mut world, step);
        }
        world
    })
}

/// The same, and then some of them go on from an older copy, once or twice.
fn restored() -> impl Strategy<Value = World> {
    let restores = prop::collection::vec((0..4_usize, 0..2_usize, prop::collection::vec(step(), 0..12)), 1..3);
    (history(), restores).prop_map(|(mut world, restores)| {
        for (who, by, steps) in restores {
            world.restore(EVERYBODY[who], SIGNERS[by]);
            for step in &steps {
                take(&mut world, step);
            }
        }
        world
    })
}

pub fn order() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 64)
}

fn take(world: &mut World, step: &Step) {
    match *step {
        Step::Invite { signer, invite, uses } => {
            // An id is drawn at random, so nobody makes it twice.
            if !world.invites.contains_key(&invite) {
                world.invite(SIGNERS[signer], invite, uses);
            }
        }
        Step::Refresh { signer } => drop(world.publish(SIGNERS[signer], Cause::Refresh, |_| {})),
        Step::RevokeNode { signer, node } => drop(world.revoke_node(SIGNERS[signer], node)),
        Step::RevokeInvite { signer, invite } => drop(world.revoke_invite(SIGNERS[signer], invite)),
        Step::Succeed { signer, third } => {
            let who = SIGNERS[signer];
            let install = world.install(who, quorum(1, &["ann", "ben", THIRDS[third]]), &[who], &[who]);
            world.append(who, install);
        }
        Step::Admit { gateway, node, invite, name } => {
            if world.invites.contains_key(&invite) {
                world.admit(GATEWAYS[gateway], node, invite, NAMES[name]);
            }
        }
        Step::Replace { gateway, node, old, invite, name } => {
            if world.invites.contains_key(&invite) {
                let action = world.replacing(GATEWAYS[gateway], (node, old), invite, NAMES[name]);
                world.append(GATEWAYS[gateway], action);
            }
        }
        Step::Join { gateway, node } => drop(world.join(GATEWAYS[gateway], node)),
        Step::Leave { gateway, node } => drop(world.leave(GATEWAYS[gateway], node)),
        Step::Learn { who, from } => world.learn(EVERYBODY[who], EVERYBODY[from]),
        Step::Suspend { signer, node, hours, hides } => {
            let who = SIGNERS[signer];
            let mut entry = world.draft(who, world.suspension(who, node, (NOW, Seconds::HOUR.times(hours))));
            if hides {
                entry.seen.0.retain(|other, _| matches!(other, Author::Gateway(_)));
            }
            attempt(world, who, &entry);
        }
        Step::Recover { gateway, third } => {
            let recovery = world.recovery(GATEWAYS[gateway], quorum(1, &["ann", "ben", HEIRS[third]]));
            world.append(GATEWAYS[gateway], Action::RecoveryBegin { recovery });
        }
        Step::TakeOver { who, late } => {
            let who = ["ann", "ben", "yan", "zoe"][who];
            let next = world.signers(who).version + 1;
            let begun = world.view(who).recoveries.values().find(|record| record.set.version == next);
            if let Some(recovery) = begun.map(|record| record.envelope.clone()) {
                let mut entry = world.draft(who, world.with_head(who, recovery, &["ann"]));
                entry.at = if late { NOW + Seconds::DAY } else { NOW };
                attempt(world, who, &entry);
            }
        }
        Step::Confirm { signer, invite, epoch } => {
            let body = Confirmation { epoch, invites: [InviteId([invite; 16])].into() };
            let confirmation = world.sealed(&body, &[SIGNERS[signer]]);
            world.append(SIGNERS[signer], Action::InviteConfirm { confirmation });
        }
        Step::Hide { gateway, node, invite } => {
            if world.invites.contains_key(&invite) {
                let who = GATEWAYS[gateway];
                let mut entry = world.draft(who, world.admission(who, node, invite, "web"));
                entry.seen.0.retain(|other, _| *other == author("ann"));
                attempt(world, who, &entry);
            }
        }
    }
}

/// Writes it, if its author's own copy takes it.
fn attempt(world: &mut World, who: &str, entry: &Entry) {
    let signed = world.signed(entry, who);
    if world.view(who).clone().apply(&signed).is_ok() {
        world.push(who, entry);
    }
}

/// Delivers in the first causal order that `entries` allow; what never fits is left out.
fn apply_all(world: &World, mut entries: Vec<SignedEntry>) -> State {
    let mut state = State::of(&world.founding);
    while let Some(at) = entries.iter().position(|signed| state.apply(signed).is_ok()) {
        entries.remove(at);
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_and_any_repetition_folds_to_the_same(world in history(), order in order(), again in order()) {
        let whole = world.fold();
        assert!(whole.unplaced.is_empty() && whole.forks.is_empty());
        let mut heap = shuffled(world.log.clone(), &order);
        heap.extend(shuffled(world.log.clone(), &again).into_iter().take(usize::from(again[0] % 20)));
        assert_eq!(fold_opened(&world.founding, shuffled(heap, &again)), whole);
    }

    #[test]
    fn applying_in_any_causal_order_is_folding(world in history(), order in order()) {
        let state = apply_all(&world, shuffled(world.log.clone(), &order));
        assert_eq!(state, world.fold().state);
    }

    #[test]
    fn the_rows_after_an_entry_are_all_that_it_changed(world in history(), order in order()) {
        let (mut state, mut kept) = (State::of(&world.founding), derived::rows(&State::of(&world.founding)));
        let mut entries = shuffled(world.log.clone(), &order);
        while let Some(at) = entries.iter().position(|signed| state.apply(signed).is_ok()) {
            let signed = entries.remove(at);
            match derived::rows_after(&state, &signed) {
                Some(rows) => kept.extend(rows),
                None => kept = derived::rows(&state),
            }
            assert_eq!(kept, derived::rows(&state));
        }
    }

    #[test]
    fn changes_lead_from_the_rows_of_one_state_to_those_of_another(world in history(), order in order()) {
        let (mut state, mut states) = (State::of(&world.founding), vec![State::of(&world.founding)]);
        let mut entries = shuffled(world.log.clone(), &order);
        while let Some(at) = entries.iter().position(|signed| state.apply(signed).is_ok()) {
            entries.remove(at);
            states.push(state.clone());
        }
        let (first, last) = (&states[usize::from(order[0]) % states.len()], &state);
        // Forward, as a ledger grows; and back, as none does: rows that go are named, too.
        for (before, after) in [(first, last), (last, first)] {
            let changes = derived::changes(Some(before), after);
            let mut rows = derived::rows(before);
            rows.retain(|key, _| !changes.gone.contains(key));
            rows.extend(changes.put);
            assert_eq!(rows, derived::rows(after));
        }
        assert_eq!(derived::changes(Some(last), last), derived::Changes::default());
    }

    #[test]
    fn replicas_that_have_heard_everything_agree(mut world in history()) {
        world.share();
        let folded = world.fold();
        for who in EVERYBODY {
            assert_eq!(world.view(who), &folded.state, "{who}");
        }
    }

    #[test]
    fn what_a_restore_gave_up_changes_nothing_in_whatever_order_it_shows_up(
        mut world in restored(), order in order(), some in any::<u8>(),
    ) {
        let kept = world.fold();
        assert!(kept.unplaced.is_empty() && kept.forks.is_empty());
        let lost = shuffled(world.lost.clone(), &order).into_iter().skip(usize::from(some) % 8);
        let heap: Vec<_> = world.log.iter().cloned().chain(lost).collect();
        assert_eq!(fold_opened(&world.founding, shuffled(heap, &order)).state, kept.state);
        world.share();
        for who in EVERYBODY {
            assert_eq!(world.view(who), &kept.state, "{who}");
        }
    }

    #[test]
    fn a_restored_state_survives_its_rows(world in restored()) {
        let state = world.fold().state;
        assert_eq!(derived::restore(&world.founding, &derived::rows(&state)), Ok(state));
    }

    #[test]
    fn no_gateway_spends_more_than_its_right(world in history(), order in order()) {
        // Any part of the history, too: a replica that has not heard of everything.
        let part: Vec<_> = shuffled(world.log.clone(), &order).into_iter().skip(usize::from(order[0] % 8)).collect();
        for state in [world.fold().state, fold_opened(&world.founding, part).state] {
            for record in state.invites.values() {
                for gateway in GATEWAYS {
                    let here = record.spent.values().flatten().filter(|spend| spend.by.author == author(gateway));
                    let found = u32::try_from(here.count()).unwrap();
                    let right = match record.invite.right_of(&gateway.parse().unwrap()) {
                        None => 0,
                        Some(Uses::Limited(uses)) => uses,
                        Some(Uses::Unlimited) => u32::MAX,
                    };
                    assert!(found <= right, "{gateway} spent {found} of {right}");
                    assert_eq!(record.spent_at.get(&author(gateway)).copied().unwrap_or(0), found);
                }
                assert!(record.spent_at.keys().all(|by| matches!(by, Author::Gateway(_))));
            }
        }
    }

    #[test]
    fn a_name_has_one_holder_and_it_is_never_revoked(world in history()) {
        let state = world.fold().state;
        for name in NAMES {
            let name = name.parse().unwrap();
            let holds = |key: &&identity::id::Digest| {
                let member = &state.members[*key];
                let ended = state.revocations.node_keys.contains(*key) || member.left;
                member.claim().name == name && !member.outrun && !ended
            };
            assert!(state.members.keys().filter(holds).count() <= 1, "{name}");
        }
    }
}
