//! The admission that a node keeps and peers are shown: the entry of whoever let it in, with claim, invite and yes.

use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::key::PublicKey;
use identity::time::Seconds;
use org::invite::admission::{Claim, ClaimAuthority};
use org::invite::approve::{Decision, Verdict, Waiver};
use org::invite::{Approval, Invite};
use org::ledger::entry::{Action, Entry, SignedEntry};
use org::ledger::evidence::Evidence;

use crate::cast::{GATEWAYS, NOW, public};
use crate::harbor::{HARBOR, INVITE, MACHINE, claim, invite, low_claim, machine, pattern};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text, digest_of, name_of};

pub fn seeds() -> Vec<Vec<u8>> {
    vec![by_invite(), by_signers(), by_pattern(), by_approval(), by_replacing()]
}

/// One claim under one invite, and the admission of it.
fn admitted(
    claim: &Claim,
    hands: &str,
    invite: Option<&Invite>,
    decide: Option<&dyn Fn(&Envelope) -> Envelope>,
) -> Vec<u8> {
    let org = Some(HARBOR.founding.id);
    let mut text = Text::default();
    let claimed = HARBOR.sealed(claim, &hands.split(' ').collect::<Vec<_>>());
    text.add(org, claim, hands, &[]);
    let mut names = vec![name_of(&claimed, 0)];
    let invite = invite.map(|invite| {
        let sealed = HARBOR.sealed(invite, &["ann", "ben"]);
        let n = text.add(org, invite, "ann ben", &[]);
        names.push(name_of(&sealed, n));
        sealed
    });
    let approval = decide.map(|decide| decide(&claimed));
    if let Some(approval) = &approval {
        let decision: Decision = approval.peek(org).expect("a decision");
        let n = text.add(org, &decision, "ann", &[digest_of(&claimed, 0)]);
        names.push(name_of(approval, n));
    }
    let signed = HARBOR.copy().write("gw-1", Action::NodeAdmit { claim: claimed, invite, approval });
    text.add(org, &signed.entry, "gw-1", &names);
    text.bytes()
}

fn by_invite() -> Vec<u8> {
    admitted(&claim(1, "web-1"), "invite-1 node-1", Some(&invite(INVITE, [2, 1])), None)
}

fn by_signers() -> Vec<u8> {
    let founder = Claim { authority: ClaimAuthority::Signers, ..claim(2, "db") };
    admitted(&founder, "ann ben node-2", None, None)
}

fn by_pattern() -> Vec<u8> {
    admitted(&low_claim(1), "node-1", Some(&pattern()), None)
}

/// A machine whose own key is the invite's, and a person's yes.
fn by_approval() -> Vec<u8> {
    let claim = Claim { authority: ClaimAuthority::Invite(MACHINE), ..claim(2, "web-2") };
    let decide = |claimed: &Envelope| {
        let yes = Decision { about: claimed.digest(), verdict: Verdict::Approve, until: Some(NOW + Seconds::DAY) };
        HARBOR.sealed(&yes, &["ann"])
    };
    admitted(&claim, "node-2", Some(&machine()), Some(&decide))
}

/// The old key has signed, too.
fn by_replacing() -> Vec<u8> {
    let claim = Claim { replaces: Some(public("node-2")), ..claim(1, "web-1") };
    admitted(&claim, "invite-1 node-1 node-2", Some(&invite(INVITE, [2, 1])), None)
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let org = HARBOR.founding.id;
    for part in &parts {
        opens_only_as_itself::<Claim>(&part.envelope, Some(org));
        opens_only_as_itself::<Invite>(&part.envelope, Some(org));
        opens_only_as_itself::<Decision>(&part.envelope, Some(org));
        opens_only_as_itself::<Waiver>(&part.envelope, Some(org));
    }
    let Some(envelope) = sealing::last(&parts, "entry").map(|part| &part.envelope) else {
        return false;
    };
    opens_only_as_itself::<Entry>(envelope, Some(org));
    let Ok(signed) = SignedEntry::open(org, envelope.clone()) else {
        return false;
    };
    let Ok(evidence) = Evidence::of(org, &signed) else {
        return false;
    };
    assert!(SignedEntry::open(OrgId([0; 32]), envelope.clone()).is_err(), "for another org, too");
    let more = envelope.clone().signed(&crate::cast::ed("safe")).expect("a key");
    let more = SignedEntry::open(org, more).expect("another signature changes nothing");
    assert_eq!(Evidence::of(org, &more).as_ref(), Ok(&evidence));
    look(&evidence);
    let mut state = HARBOR.state.clone();
    state.take_entry(&signed, NOW);
    state.conclude(NOW);
    let counts = state.judged.fold.members.values().any(|it| it.admission == signed.digest);
    assert_ne!(counts, state.judged.fold.waiting.contains_key(&signed.digest), "it counts, or it waits");
    if counts {
        may_count(&evidence);
    }
    true
}

/// It hangs together, whether or not it counts.
fn look(evidence: &Evidence) {
    let (claim, signed) = (&evidence.claim, &evidence.signed_claim);
    let has = |key: PublicKey| !signed.signers_among(&[key].into()).is_empty();
    assert!(matches!(claim.node_key, PublicKey::P256(_)));
    assert!(has(claim.node_key), "the node key did not sign");
    assert!(claim.replaces.is_none_or(has), "the key that it replaces did not sign");
    match (&evidence.invite, claim.authority) {
        (Some((_, invite)), authority @ (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern)) => {
            assert_eq!(authority.invite(), invite.kind.is_proven().then_some(invite.id), "an invite is no pattern");
            assert_eq!(claim.is_low(), !invite.kind.is_proven());
            assert!(invite.is_well_formed());
            assert!(claim.keys(invite).into_iter().all(has), "a key did not sign");
        }
        (None, ClaimAuthority::Signers) => {}
        _ => panic!("an admission without authority"),
    }
}

/// Nobody comes in by it whom the operators did not let in.
fn may_count(evidence: &Evidence) {
    let claim = &evidence.claim;
    assert!(GATEWAYS.iter().any(|gateway| evidence.voice == public(gateway)), "a voice that nobody gave");
    let quorum = &HARBOR.signers().quorum;
    let enough = |envelope: &Envelope| envelope.signers_among(&quorum.keys()).len() >= quorum.threshold();
    let Some((envelope, invite)) = &evidence.invite else {
        assert!(enough(&evidence.signed_claim), "signers did not sign");
        return;
    };
    assert!(enough(envelope), "the invite is not the operators'");
    let has = |key: PublicKey| !evidence.signed_claim.signers_among(&[key].into()).is_empty();
    assert!(invite.key.is_none_or(has), "the invite is for another machine");
    assert!(invite.names.iter().any(|glob| glob.matches(claim.name.as_str())));
    assert!(claim.labels.is_subset(&invite.labels) && claim.roles.is_subset(&invite.roles));
    assert!(invite.right_of(evidence.voice).is_some(), "it was not for this gateway");
    if invite.approval == Approval::Human {
        let said = evidence.approval.as_ref().expect("somebody said yes");
        assert!(!said.signers_among(&quorum.keys()).is_empty(), "nobody said yes to this");
    }
}
