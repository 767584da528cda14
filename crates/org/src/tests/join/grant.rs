//! What a gateway grants itself is what everybody else reads, and nothing else is spared the reading.

use identity::envelope::Envelope;
use identity::key::Sign;

use crate::enroll::EnrollOutcome;
use crate::invite::admission::ClaimAuthority;
use crate::ledger::chain::Written;
use crate::ledger::entry::Action;
use crate::ledger::evidence::BadEvidence;
use crate::ledger::tests::world::{Org, claim, day, ed, invite, machine};
use crate::state::grant::{Granted, KnownInvite, ProvenClaim};
use crate::state::take::NotTaken;
use crate::tests::world::{HERE, Site, invited, said};

fn settled() -> (Org, Site) {
    invited(&["i", "j"].map(|id| invite(id, &["*"], &[(HERE, 2)], 20)))
}

fn claimed(org: &Org, hands: &[&dyn Sign]) -> Envelope {
    let mut envelope = org.seal(&claim("k1", "web", ClaimAuthority::Invite(crate::tests::world::invite_id("i"))), &[]);
    for hand in hands {
        envelope.sign(*hand).unwrap();
    }
    envelope
}

fn known(site: &Site, id: &str) -> KnownInvite {
    KnownInvite::from(&EnrollOutcome::Admit { invite: site.invite(id), approval: None })
}

fn granted(org: &Org, site: &Site) -> Granted {
    let claim = claimed(org, &[&ed("i"), machine("k1").as_ref()]);
    let proven = ProvenClaim::check(claim, org.founding.id, &known(site, "i")).unwrap();
    Granted::new(proven, known(site, "i")).unwrap()
}

#[test]
fn what_is_granted_reads_the_same_and_has_the_same_effect() {
    let (org, site) = settled();
    let granted = granted(&org, &site);
    let signed = site.draft((HERE, 1), granted.action().clone());
    assert_eq!(granted.written(&signed), Some(Written::read(org.founding.id, &signed)));
    let (mut by_grant, mut by_reading, mut told) = (site.state.clone(), site.state.clone(), site.state.clone());
    by_grant.take_own(&signed, Some(&granted), day(1)).unwrap();
    by_reading.take_own(&signed, None, day(1)).unwrap();
    told.take(&signed.envelope, day(1)).unwrap();
    told.conclude(day(1));
    assert_eq!(said(&by_grant), said(&by_reading));
    assert_eq!(said(&by_grant), said(&told));
    // Once more, it is out of turn.
    assert_eq!(by_grant.take_own(&signed, Some(&granted), day(1)), Err(NotTaken::OutOfTurn));
}

#[test]
fn a_grant_spares_no_other_bytes_the_reading() {
    let (org, site) = settled();
    let granted = granted(&org, &site);
    // The same claim, but no invite's key has signed it.
    let invite = Some(site.invite("i").envelope.clone());
    let forged = Action::NodeAdmit { claim: claimed(&org, &[machine("k1").as_ref()]), invite, approval: None };
    let signed = site.draft((HERE, 1), forged);
    assert_eq!(granted.written(&signed), None);
    let mut state = site.state.clone();
    assert!(state.take_own(&signed, Some(&granted), day(1)).is_err());
    assert_eq!(said(&state), said(&site.state));
}

#[test]
fn a_claim_is_proven_by_both_keys_and_granted_only_under_its_own_invite() {
    let (org, site) = settled();
    let (id, secret, own) = (org.founding.id, ed("i"), machine("k1"));
    let wrong: [&[&dyn Sign]; 3] = [&[&secret], &[own.as_ref()], &[own.as_ref(), &ed("j")]];
    for hands in wrong {
        assert!(ProvenClaim::check(claimed(&org, hands), id, &known(&site, "i")).is_err());
    }
    let proven = ProvenClaim::check(claimed(&org, &[&secret, own.as_ref()]), id, &known(&site, "i")).unwrap();
    assert_eq!(Granted::new(proven, known(&site, "j")), Err(BadEvidence::NoAuthority));
    // Signed by the key of the invite `j`, while the claim names `i`: nobody else would read it so.
    let crossed = ProvenClaim::check(claimed(&org, &[&ed("j"), own.as_ref()]), id, &known(&site, "j")).unwrap();
    for invite in ["i", "j"] {
        assert_eq!(Granted::new(crossed.clone(), known(&site, invite)), Err(BadEvidence::NoAuthority), "{invite}");
    }
}
