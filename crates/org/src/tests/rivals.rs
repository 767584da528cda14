//! Two sets claim one place, and all of them sign one: what is told, what is taken, and what its first head says.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::signers::SignerSet;

use super::world::{HERE, Site};
use crate::ledger::draft::{self, Draft, Intent, draft_on};
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, day, invite, key, node, signed};
use crate::state::Standing;
use crate::state::accept::NotAccepted;

/// Any one of two signs. On day 2 each adds a colleague, apart from the other, and there somebody goes or comes; on day 3 the
/// one hears of the other.
struct Apart {
    org: Org,
    site: Site,
    rivals: [SignerSet; 2],
    steps: [Envelope; 2],
    heads: [Sent; 2],
}

fn apart() -> Apart {
    let org = Org::new(1, &["ann", "ben"]);
    let mut both = Site::of(&org);
    let made = org.seal(&invite("i", &["*"], &[(HERE, 5), ("g2", 5)], 30), &["ann"]);
    both.handed((HERE, 1), &made.clone().into());
    both.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    both.publish(&org, (1, &["ann"]), &Wish::default());
    let (mut one, mut other) = (both.clone(), both);
    let [step, _] = one.install(&org, 2, (2, &["ann", "ben", "cat"]), &["ann"]);
    let head = one.publish(&org, (2, &["cat"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    let [other_step, _] = other.install(&org, 2, (2, &["ben", "ann", "dan"]), &["ben"]);
    other.admit(("g2", 2), &org.claim(("k2", "db"), &made, None)).unwrap();
    let other_head = other.publish(&org, (2, &["ben"]), &Wish::default());
    let rivals = [one.state.signer_set().clone(), other.state.signer_set().clone()];
    let given = other.holdings();
    one.hear_all(&given, 3);
    let steps = [step.envelope, other_step.envelope];
    Apart { org, site: one, rivals, steps, heads: [head, other_head] }
}

/// The step to a set that all sign, and its first head, as the honest tool makes them.
fn agreed(apart: &Apart, set: &SignerSet, by: (&[&str], &str)) -> (Envelope, Sent) {
    let state = apart.site.state.settled_by_all(set).unwrap();
    let stands_in = state.head().unwrap().digest;
    let wish = draft::Wish::default();
    let intent = Intent { wish: &wish, meaning: None };
    let drafted = draft_on(&state.replica, &state.judged.ground, &state.judged.fold, day(3), intent, |_| {});
    let Draft { head, leaves, .. } = drafted.unwrap();
    let [one, other] = &apart.rivals;
    (apart.org.agreed(&[one, other], set, stands_in, by.0), apart.org.head(head, leaves, &[by.1]))
}

#[test]
fn the_first_head_of_a_set_that_all_rivals_signed_says_what_each_of_them_said() {
    let mut apart = apart();
    assert!(apart.site.state.is_frozen());
    assert_eq!(apart.site.state.claimed_heads().len(), 4);
    let all = apart.org.later(3, 2, &["ann", "ben", "cat", "dan"]);
    let (step, head) = agreed(&apart, &all, (&["ann"], "cat"));
    let body = apart.org.body(&head);
    let tips: BTreeSet<_> = apart.heads.iter().map(Sent::digest).collect();
    assert!(tips.is_subset(&body.previous.iter().copied().collect()), "{:?}", body.previous);
    assert!(body.revocations.node_keys.contains(&key("k1")), "what one took away");
    assert_eq!(body.signers, all.as_ref());
    let leaves = head.map.clone().unwrap();
    assert!(leaves.contains_key(&node("db")) && !leaves.contains_key(&node("web")), "whom the other let in");
    // One signature is not enough for the head of a set in which two must agree.
    apart.site.hear_all(&[step.clone().into(), head.clone()], 3);
    assert_eq!((apart.site.state.signer_set(), apart.site.state.is_frozen()), (&all, false));
    assert!(!tips.contains(&head.digest()) && tips.contains(&apart.site.state.head().unwrap().digest), "it stands in");
    let envelope = signed(head.envelope.clone(), &["dan"]);
    apart.site.hear(&Sent { envelope, map: head.map.clone() }, 3);
    assert_eq!(apart.site.state.head().unwrap().digest, head.digest());
    let standing = |key: &str| apart.site.standing(key);
    assert_eq!((standing("k1"), standing("k2")), (Some(Standing::Revoked), Some(Standing::Issued)));
    assert_eq!(apart.site.state.check_taken(&step), Ok(()));
    assert_eq!(apart.site.state.check_taken(&head.envelope), Ok(()));
}

#[test]
fn what_one_rival_alone_signed_is_not_taken() {
    let mut apart = apart();
    let all = apart.org.later(3, 1, &["ann", "ben", "cat", "dan"]);
    let (step, head) = agreed(&apart, &all, (&["cat"], "cat"));
    let before = apart.site.state.head().unwrap().digest;
    apart.site.hear_all(&[step.clone().into(), head.clone()], 3);
    assert_eq!((apart.site.state.is_frozen(), apart.site.state.head().unwrap().digest), (true, before));
    assert_eq!(apart.site.state.check_taken(&step), Err(NotAccepted::Frozen));
    assert_eq!(apart.site.state.check_taken(&head.envelope), Err(NotAccepted::Head));
}

#[test]
fn whom_the_last_set_let_in_stays_though_more_must_agree_from_then_on() {
    let Apart { org, .. } = apart();
    let mut site = Site::of(&org);
    let made = org.seal(&invite("i", &["*"], &[(HERE, 5)], 30), &["ann"]);
    site.handed((HERE, 1), &made.clone().into());
    site.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    let first = site.state.head().unwrap().digest;
    for third in ["cat", "dan"] {
        let to = org.later(2, 2, &["ann", "ben", third]);
        site.told(&org.succession(&org.set(), &to, first, &["ben"]), 2);
    }
    let settled = site.state.settled_by_all(&org.later(3, 2, &["ann", "ben", "cat", "dan"])).unwrap();
    assert_eq!(settled.head().unwrap().digest, first, "neither has signed a head");
    assert_eq!(settled.judged.fold.members[&node("web")].key, key("k1"));
    assert!(settled.judged.fold.waiting.is_empty());
}

#[test]
fn the_steps_to_all_rivals_are_told_with_the_set_that_they_signed() {
    let mut apart = apart();
    let all = apart.org.later(3, 1, &["ann", "ben", "cat", "dan"]);
    let (step, head) = agreed(&apart, &all, (&["ben"], "dan"));
    apart.site.hear_all(&[step.clone().into(), head], 3);
    let told = |steps: Vec<Envelope>| steps.iter().map(Envelope::digest).collect::<BTreeSet<_>>();
    let every: BTreeSet<_> = apart.steps.iter().chain([&step]).map(Envelope::digest).collect();
    // Also to who followed one of them, and as the last that which settles it.
    for version in [1, 2] {
        let chain = apart.site.state.signer_chain(version);
        assert_eq!(chain.last().map(Envelope::digest), Some(step.digest()));
        assert_eq!((chain.len(), told(chain)), (3, every.clone()));
    }
    assert_eq!(apart.site.state.signer_chain(3), []);
    assert_eq!(apart.site.state.contested_sets().count(), 2, "their names are taken");
}
