//! Attacks on the earlier ledger that worked, tried on this one: signers who were removed, gateways that lie.

use super::world::{HERE, Site, Turned, said};
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::ledger::counts::NotCounted;
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{DELAY, Org, Sent, claim, day, invite, key, leaf, machine, mandate, node, voice};
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::state::take::NotTaken;

/// Any one of `ann` and `bob` signs. `k1` is listed as `web`. Ann removed bob on day 3; `home` knows, `late` does not.
struct Removed {
    org: Org,
    home: Site,
    late: Site,
    install: [Sent; 2],
    invite: identity::envelope::Envelope,
}

fn removed() -> Removed {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = Site::of(&org);
    let made = org.seal(&invite("of bob", &["*"], &[(HERE, 5), ("g2", 5)], 40), &["bob"]);
    home.handed((HERE, 1), &made.clone().into());
    home.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    home.publish(&org, (2, &["ann"]), &Wish::default());
    let mut late = Site::of(&org);
    home.give(&mut late, 2);
    let install = home.install(&org, 3, (2, &["ann"]), &["ann"]);
    Removed { org, home, late, install, invite: made }
}

fn admission(org: &Org, who: (&str, &str), invite: &identity::envelope::Envelope) -> Action {
    Action::NodeAdmit { claim: org.claim(who, invite, None), invite: Some(invite.clone()), approval: None }
}

fn not_signed(found: usize) -> NotCounted {
    NotCounted::NotSigned { found, needed: 1 }
}

/// Both hear everything that the other has, and then agree.
#[track_caller]
fn meet(one: &mut Site, other: &mut Site, on: u64) {
    for _ in 0..2 {
        one.give(other, on);
        other.give(one, on);
    }
    other.state.replica.sights.clone_from(&one.state.replica.sights);
    other.state.conclude(day(on));
    assert_eq!(said(&one.state), said(&other.state));
}

/// 5a. It says that it never heard of the install, and goes on under the invite of the signer who was removed.
#[test]
fn a_gateway_that_never_acknowledges_an_install_lets_nobody_in_under_an_outdated_invite() {
    let Removed { org, mut home, mut late, invite, .. } = removed();
    // For itself it may believe so; nobody else does, whatever `under` says.
    late.write(("g2", 9), admission(&org, ("k2", "db"), &invite)).unwrap();
    assert_eq!(late.standing("k2"), Some(Standing::Issued));
    late.give(&mut home, 10);
    let outdated = Why::Judged(NotMember::Invite(not_signed(0)));
    assert_eq!((home.standing("k2"), home.why("k2")), (Some(Standing::Waiting), Some(outdated.clone())));
    assert_eq!(home.standing("k1"), Some(Standing::Issued), "a leaf outlives the invite");
    // An honest gateway refuses at the door, and would not write it down either.
    let claim = org.claim(("k3", "mail"), &invite, None);
    assert_eq!(home.admit((HERE, 10), &claim), Err(Turned::Away(Refusal::InviteOutdated)));
    let refused = home.write((HERE, 10), admission(&org, ("k3", "mail"), &invite));
    assert_eq!(refused, Err(NotTaken::Waits(outdated)));
    // No head gives it a leaf by itself.
    home.publish(&org, (11, &["ann"]), &Wish::default());
    assert_eq!((home.standing("k2"), home.why("k2")), (Some(Standing::Waiting), Some(Why::Passed)));
    meet(&mut home, &mut late, 12);
}

/// 5b. Bob goes on signing: he revokes, mandates, invites and lets in.
#[test]
fn what_a_removed_signer_signs_counts_for_nothing() {
    let Removed { org, mut home, mut late, install, .. } = removed();
    let known = home.state.head().unwrap().clone();
    let base = Sent { envelope: known.envelope.clone(), map: home.state.leaves().cloned() };
    let of_old = Sent { envelope: late.state.head().unwrap().envelope.clone(), map: late.state.leaves().cloned() };
    let rank = |version, set: identity::signers::SignersRef| {
        move |head: &mut identity::head::Head, leaves: &mut crate::ledger::fold::Leaves| {
            (head.version, head.signers) = (version, set);
            head.revocations.node_keys.insert(key("k1"));
            head.mandates.push(mandate("g9", "voice of bob"));
            leaves.insert(node("payroll"), leaf("payroll", "k-bob"));
        }
    };
    let before = said(&home.state);
    let forged = [
        org.forged(&of_old, &["bob"], rank(3, org.set().as_ref())),
        org.forged(&of_old, &["bob"], rank(900, org.set().as_ref())),
        org.forged(&base, &["bob"], rank(900, org.later(2, 1, &["ann"]).as_ref())),
    ];
    home.hear_all(&forged, 5);
    let now = said(&home.state);
    assert_eq!(now, before);
    assert!(home.state.judged.voices.keys().all(|known| *known != voice("voice of bob")));
    // An invite of his, after he was removed, and somebody let in under it by a gateway that lies.
    let made = org.invite("anew", &["*"], &[("g2", 5)], (40, &["bob"]));
    let mut lies = home.clone();
    lies.force(("g2", 5), admission(&org, ("k2", "db"), &made));
    lies.give(&mut home, 5);
    assert_eq!(home.why("k2"), Some(Why::Judged(NotMember::Invite(not_signed(0)))));
    let entry = SignedEntry::open(org.founding.id, {
        let mut his = home.clone();
        his.force(("voice of bob", 5), admission(&org, ("k3", "mail"), &made)).envelope
    });
    home.hear(&entry.unwrap().into(), 5);
    assert_eq!(home.standing("k3"), None, "nobody's voice lets nobody in");
    // Whoever did not know yet, and heard bob first, comes round with the install.
    late.hear_all(&forged[..2], 5);
    assert_eq!(late.standing("k1"), Some(Standing::Revoked));
    late.hear_all(&install, 6);
    assert_eq!(late.standing("k1"), Some(Standing::Issued));
    meet(&mut home, &mut late, 6);
}

/// 5c. Bob signs a succession of his own beside the true one.
#[test]
fn a_removed_signers_own_succession_is_late_or_freezes_and_never_wins() {
    let Removed { org, home, late, install, .. } = removed();
    let eve = org.later(2, 1, &["bob", "eve"]);
    let step: Sent = org.succession(&org.set(), &eve, org.first.digest(), &["bob"]).into();
    let head = org.forged(&org.first, &["eve"], |head, leaves| {
        (head.version, head.signers) = (900, eve.as_ref());
        leaves.clear();
    });
    let ann = org.later(2, 1, &["ann"]);
    // Long after the true one: it is shouted of, and changes nothing.
    let mut settled = home.clone();
    settled.state.conclude(day(3 + DELAY));
    let before = settled.state.judged.fold.clone();
    settled.hear_all(&[step.clone(), head.clone()], 4 + DELAY);
    assert_eq!((settled.state.is_frozen(), settled.state.signer_set()), (false, &ann));
    assert_eq!(settled.state.judged.fold, before);
    assert_eq!(settled.standing("k1"), Some(Standing::Issued));
    // Within the window, whichever came first: everybody who has both is frozen, and what runs, runs.
    let [mut first, mut other] = [home, late];
    first.hear_all(&[step.clone(), head.clone()], 4);
    other.hear_all(&[step, head], 4);
    assert_eq!(other.state.signer_set(), &eve, "it had heard nothing else");
    other.hear_all(&install, 5);
    for site in [&first, &other] {
        assert_eq!((site.state.is_frozen(), site.state.signer_set()), (true, &org.set()));
    }
    assert_eq!(first.standing("k1"), Some(Standing::Issued));
    // The phrases name the set that stays, and both go on by it.
    let way: Sent = org.way_out(&org.set(), &ann, org.first.digest(), &["phrase-1", "phrase-2"]).into();
    for site in [&mut first, &mut other] {
        site.hear(&way, 6);
        site.state.conclude(day(6 + DELAY));
        assert_eq!((site.state.is_frozen(), site.state.signer_set()), (false, &ann));
    }
    meet(&mut first, &mut other, 6 + DELAY);
    assert_eq!(
        (other.standing("k1"), other.state.head().unwrap().head.signers),
        (Some(Standing::Issued), ann.as_ref())
    );
}

/// 5d. A change of signers, and a revocation on either side of it, in whatever order they come.
#[test]
fn install_and_revocation_survive_any_order() {
    let Removed { org, mut home, install, .. } = removed();
    let revokes = |name| Wish { revoke_keys: vec![key(name)], ..Wish::default() };
    let after = home.publish(&org, (4, &["ann"]), &revokes("k1"));
    let base = Site::of(&org);
    // A revocation that the removed signer made in time, which the install reaches.
    let mut before = Site::of(&org);
    let early = before.publish(&org, (2, &["bob"]), &revokes("ka"));
    let step = before.install(&org, 3, (2, &["ann"]), &["ann"]);
    for (things, gone) in [
        (vec![install[0].clone(), install[1].clone(), after], "k1"),
        (vec![early, step[0].clone(), step[1].clone()], "ka"),
    ] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for at_once in [true, false] {
                let mut site = base.clone();
                for sent in order.map(|at| &things[at]) {
                    if at_once { site.take(sent, 5) } else { site.hear(sent, 5) }
                }
                site.state.conclude(day(5));
                assert_eq!(site.state.signer_set(), &org.later(2, 1, &["ann"]), "{order:?}");
                assert!(site.state.is_gone(key(gone)), "{order:?} {gone}");
                assert_eq!(site.state.judged.fold.head, site.state.head().map(|head| head.digest));
            }
        }
    }
}

/// 6. The signers' own word over a claim, by a set that was replaced, with a gateway's voice under it.
#[test]
fn a_claim_by_replaced_signers_lets_nobody_in_and_neither_does_one_without_an_end() {
    let Removed { org, mut home, .. } = removed();
    let word =
        |by: &str| Action::NodeAdmit { claim: org.word(("k2", "payroll"), 40, &[by]), invite: None, approval: None };
    let why = |found| Why::Judged(NotMember::Word(not_signed(found)));
    assert_eq!(home.write((HERE, 5), word("bob")), Err(NotTaken::Waits(why(0))));
    assert_eq!(home.write((HERE, 5), word(HERE)), Err(NotTaken::Waits(why(0))), "nor by the gateway itself");
    home.force(("g2", 5), word("bob"));
    assert_eq!((home.standing("k2"), home.why("k2")), (Some(Standing::Waiting), Some(why(0))));
    let endless = claim("k3", "endless", ClaimAuthority::Signers);
    let endless = org.seal(&endless, &["ann"]).signed(machine("k3").as_ref()).unwrap();
    let endless = Action::NodeAdmit { claim: endless, invite: None, approval: None };
    let refused = home.write((HERE, 5), endless.clone());
    assert_eq!(refused, Err(NotTaken::Waits(Why::Judged(NotMember::Word(NotCounted::NoEnd)))));
    home.force(("g2", 5), endless);
    assert_eq!(home.standing("k3"), Some(Standing::Waiting));
    // By those of now, and until a day, it counts; and no longer than that.
    let mut apart = home.clone();
    let good = Claim { until: Some(day(7)), ..claim("k4", "good", ClaimAuthority::Signers) };
    let good = org.seal(&good, &["ann"]).signed(machine("k4").as_ref()).unwrap();
    home.write((HERE, 5), Action::NodeAdmit { claim: good, invite: None, approval: None }).unwrap();
    assert_eq!(home.standing("k4"), Some(Standing::Issued));
    let mut later = home.clone();
    home.publish(&org, (6, &["ann"]), &Wish::default());
    assert_eq!(home.standing("k4"), Some(Standing::Issued), "a leaf");
    let unheard = apart.publish(&org, (8, &["ann"]), &Wish::default());
    later.hear(&unheard, 8);
    assert_eq!(later.standing("k4"), Some(Standing::Waiting));
}

/// 8. A gateway that lies lets somebody else in under the name of a real machine, before and after it is closed.
#[test]
fn an_admission_by_a_lying_gateway_leaves_the_real_member_seated() {
    let org = Org::new(1, &["ann"]);
    let mut home = Site::of(&org);
    let made = org.seal(&invite("i", &["*"], &[(HERE, 5), ("g2", 5)], 40), &["ann"]);
    home.handed((HERE, 1), &made.clone().into());
    home.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    home.publish(&org, (2, &["ann"]), &Wish::default());
    let mut lies = home.clone();
    for (thief, name) in [("k-eve", "web"), ("k-mal", "alpha")] {
        let refused = lies.write(("g2", 3), admission(&org, (thief, name), &made));
        assert!(matches!(refused, Err(NotTaken::Waits(Why::Judged(NotMember::NameOfAnother { .. })))));
        lies.force(("g2", 3), admission(&org, (thief, name), &made));
    }
    lies.give(&mut home, 3);
    let seated = |site: &Site| {
        assert_eq!((site.holder("web"), site.standing("k1")), (Some(key("k1")), Some(Standing::Issued)));
        assert_eq!(site.state.judged.fold.members[&node("alpha")].key, key("ka"));
        assert_eq!(site.standing("k-eve"), Some(Standing::Waiting));
    };
    seated(&home);
    // The real one's own retry is answered, and it joins.
    home.join((HERE, 3), ("k1", "web"));
    assert_eq!(home.standing("k1"), Some(Standing::Member));
    home.publish(&org, (4, &["ann"]), &Wish { close: vec![voice("g2")], ..Wish::default() });
    lies.force(("g2", 5), admission(&org, ("k-eve", "web"), &made));
    lies.give(&mut home, 5);
    assert_eq!(home.holder("web"), Some(key("k1")));
    assert_eq!(home.standing("k1"), Some(Standing::Member));
    // Before any head lists the real one, a mandated gateway can contest its name, and no more: both wait.
    let mut home = Site::of(&org);
    home.handed((HERE, 1), &made.clone().into());
    home.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    let mut lies = home.clone();
    lies.force(("g2", 1), admission(&org, ("k-eve", "web"), &made));
    lies.give(&mut home, 1);
    assert_eq!((home.why("k1"), home.why("k-eve")), (Some(Why::Contested), Some(Why::Contested)));
    // The head that ends the gateway, or the intruder, lists whom nobody contests then.
    let closes = Wish { close: vec![voice("g2")], ..Wish::default() };
    for wish in [closes, Wish { revoke_keys: vec![key("k-eve")], ..Wish::default() }] {
        let mut home = home.clone();
        home.publish(&org, (2, &["ann"]), &wish);
        assert_eq!((home.holder("web"), home.standing("k1")), (Some(key("k1")), Some(Standing::Issued)));
        assert_ne!(home.standing("k-eve"), Some(Standing::Issued));
    }
    home.publish(&org, (2, &["ann"]), &Wish::default());
    assert_eq!(home.holder("web"), None, "and another one passes both");
}
