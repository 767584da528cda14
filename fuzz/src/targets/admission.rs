//! The admission that anyone can check for ever: gateway, invite and claim hold together.

use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::key::PublicKey;
use org::admission::{Admission, Admitted, Claim, ClaimAuthority, open_invite};
use org::approve::{Approved, Decision, Verdict, Waiver};
use org::invite::{Approval, Invite};

use crate::cast::public;
use crate::harbor::{HARBOR, INVITE, MACHINE, claim, invite, low_claim, machine, pattern};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text, digest_of, name_of};

pub fn seeds() -> Vec<Vec<u8>> {
    let org = Some(HARBOR.founding.id);
    let mut invited = Text::default();
    let claimed = HARBOR.claim(1, "web-1");
    invited.add(org, &claim(1, "web-1"), "invite-1 node-1", &[]);
    invited.add(org, &invite(INVITE, [2, 1]), "ann ben", &[]);
    let names = [name_of(&claimed, 0), name_of(&HARBOR.invite, 1)];
    invited.add(org, &HARBOR.admission("gw-1", claimed.clone()), "gw-1", &names);

    let mut signed = Text::default();
    let founder = Claim { authority: ClaimAuthority::Signers, ..claim(2, "gw-1") };
    let claimed = HARBOR.sealed(&founder, &["ann", "ben", "node-2"]);
    signed.add(org, &founder, "ann ben node-2", &[]);
    let admission = Admission { invite: None, ..HARBOR.admission("gw-1", claimed.clone()) };
    signed.add(org, &admission, "gw-1", &[name_of(&claimed, 0)]);
    vec![invited.bytes(), signed.bytes(), by_pattern(), by_approval(), by_replacing()]
}

/// One claim under one invite, and the admission of it.
fn admitted(claim: &Claim, hands: &str, invite: &Invite, decide: Option<&dyn Fn(&Envelope) -> Envelope>) -> Vec<u8> {
    let org = Some(HARBOR.founding.id);
    let mut text = Text::default();
    let claimed = HARBOR.sealed(claim, &hands.split(' ').collect::<Vec<_>>());
    let sealed = HARBOR.sealed(invite, &["ann", "ben"]);
    text.add(org, claim, hands, &[]);
    text.add(org, invite, "ann ben", &[]);
    let mut names = vec![name_of(&claimed, 0), name_of(&sealed, 1)];
    let approval = decide.map(|decide| decide(&claimed));
    if let Some(approval) = &approval {
        let decision: Decision = approval.peek(org).expect("a decision");
        let n = text.add(org, &decision, "ann", &[digest_of(&claimed, 0)]);
        names.push(name_of(approval, n));
    }
    let admission = Admission { invite: Some(sealed), approval, ..HARBOR.admission("gw-1", claimed) };
    text.add(org, &admission, "gw-1", &names);
    text.bytes()
}

fn by_pattern() -> Vec<u8> {
    admitted(&low_claim(1), "node-1", &pattern(), None)
}

/// A machine whose own key is the invite's, and a person's yes.
fn by_approval() -> Vec<u8> {
    let claim = Claim { authority: ClaimAuthority::Invite(MACHINE), ..claim(2, "web-2") };
    let decide =
        |claimed: &Envelope| HARBOR.sealed(&Decision { about: claimed.digest(), verdict: Verdict::Approve }, &["ann"]);
    admitted(&claim, "node-2", &machine(), Some(&decide))
}

/// The old key has signed, too.
fn by_replacing() -> Vec<u8> {
    let claim = Claim { replaces: Some(public("node-2")), ..claim(1, "web-1") };
    admitted(&claim, "invite-1 node-1 node-2", &invite(INVITE, [2, 1]), None)
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
    let Some(envelope) = sealing::last(&parts, "admission").map(|part| &part.envelope) else {
        return false;
    };
    let Some(body) = opens_only_as_itself::<Admission>(envelope, Some(org)) else {
        return false;
    };
    let sets = [HARBOR.signers().clone()];
    let Ok(admitted) = Admission::check(envelope, org, public("gw-1"), &sets) else {
        return false;
    };
    look(envelope, &body, &admitted);
    assert!(Admission::check(envelope, OrgId([0; 32]), public("gw-1"), &sets).is_err(), "for another org too");
    assert!(Admission::check(envelope, org, public("gw-1"), &[]).is_err(), "without any signers");
    assert!(Admission::check(envelope, org, public("safe"), &sets).is_err(), "without the gateway's voice");
    let more = envelope.clone().signed(&crate::cast::ed("safe")).expect("a key");
    assert_eq!(Admission::check(&more, org, public("gw-1"), &sets), Ok(admitted), "another signature changes nothing");
    true
}

fn look(envelope: &Envelope, body: &Admission, admitted: &Admitted) {
    let claim = &admitted.claim;
    assert_eq!((admitted.digest, &admitted.gateway, admitted.at), (envelope.digest(), &body.gateway, body.at));
    assert!(matches!(claim.node_key, PublicKey::P256(_)));
    assert!(!body.claim.signers_among(&[claim.node_key].into()).is_empty(), "the node key did not sign");
    match (&admitted.invite, claim.authority) {
        (Some((digest, invite)), authority @ (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern)) => {
            let written = body.invite.as_ref().expect("it has an invite");
            assert_eq!(*digest, written.digest());
            assert_eq!(authority.invite(), invite.kind.is_proven().then_some(invite.id), "an invite is no pattern");
            assert_eq!(claim.is_low(), !invite.kind.is_proven());
            assert!(invite.is_well_formed());
            assert_eq!(open_invite(written, HARBOR.founding.id, &[HARBOR.signers().clone()]).as_ref(), Ok(invite));
            for key in claim.keys(invite) {
                assert!(!body.claim.signers_among(&[key].into()).is_empty(), "a key did not sign: {key}");
            }
            if let Some(key) = invite.key {
                assert!(!body.claim.signers_among(&[key].into()).is_empty(), "the invite's key did not sign");
            }
            if invite.approval == Approval::Human {
                let (by, about) = (body.approval.as_ref().expect("somebody said yes"), body.claim.digest());
                let signers = [HARBOR.signers().clone()];
                let said = Approved::check(by, (invite, about), &claim.name, admitted.at, &signers);
                assert!(said.is_some(), "nobody said yes to this");
                assert!(said != Some(Approved::Name) || invite.kind.is_proven(), "a waiver lets no pattern in");
            }
            assert!(invite.names.iter().any(|glob| glob.matches(claim.name.as_str())));
            assert!(claim.labels.is_subset(&invite.labels) && claim.roles.is_subset(&invite.roles));
            assert!(admitted.at < invite.expires_at);
        }
        (None, ClaimAuthority::Signers) => {
            let signed = body.claim.signers_among(&HARBOR.signers().quorum.keys()).len();
            assert!(body.invite.is_none() && signed >= HARBOR.signers().quorum.threshold());
        }
        _ => panic!("an admission without authority"),
    }
}
