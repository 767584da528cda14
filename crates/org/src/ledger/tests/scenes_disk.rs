//! Scenes of a replica that starts again: what a lying gateway put into entries means no more from the own disk than it did when it came.

use identity::envelope::Envelope;

use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::Why;
use crate::ledger::replica::Replica;
use crate::ledger::tests::replicas::{state, tell, under};
use crate::ledger::tests::world::{Org, day, junk};

/// The same entries, read back.
fn started_again(org: &Org, entries: &[SignedEntry], like: &Replica) -> Replica {
    let mut again = Replica::new(&org.founding, None);
    again.sights = like.sights.clone();
    again.maps = like.maps.clone();
    for signed in entries {
        again.remember_entry(signed);
    }
    again
}

fn write(org: &Org, replica: &Replica, actions: Vec<Action>) -> Vec<SignedEntry> {
    let mut entries: Vec<SignedEntry> = Vec::new();
    for action in actions {
        entries.push(org.entry("g1", entries.last(), under(replica, 1), action));
    }
    entries
}

fn take(envelope: &Envelope) -> Action {
    Action::Take { envelope: envelope.clone() }
}

#[test]
fn a_claim_that_nobody_signed_lets_nobody_in_after_a_restart_either() {
    let org = Org::new(1, &["ann"]);
    let mut replica = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 5)], (50, &["ann"]));
    // The gateway has no secret of the invite's.
    let claim = junk(&org.claim(("k1", "x"), &invite, None), "i", "x");
    let admit = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
    let entries = write(&org, &replica, vec![take(&org.first.envelope), take(&invite), admit]);
    for signed in &entries {
        tell(&mut replica, &signed.envelope, 1);
    }
    let now = state(&replica, 2);
    assert!(now.waiting.values().any(|waiting| matches!(waiting.why, Why::Unreadable(_))), "{:?}", now.waiting);
    assert_eq!(started_again(&org, &entries, &replica).state(day(2)).unwrap(), now);
}

#[test]
fn a_signature_that_is_none_takes_no_true_one_away_after_a_restart_either() {
    let org = Org::new(1, &["ann"]);
    let replica = org.replica();
    let head = &org.first.envelope;
    let fake = |filled_with: &str| take(&junk(head, "ann", filled_with));
    // Before and after the true one, and whichever would sort first.
    let actions = vec![fake("\0"), fake("~"), take(head), fake("\0"), fake("~")];
    let entries = write(&org, &replica, actions);
    let again = started_again(&org, &entries, &replica);
    assert_eq!(again.ground(day(2)).unwrap().head.map(|record| record.digest), Some(head.digest()));
}
