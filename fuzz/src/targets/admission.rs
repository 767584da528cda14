//! The admission that anyone can check for ever: gateway, invite and claim hold together.

use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::key::PublicKey;
use org::admission::{Admission, Admitted, Claim, ClaimAuthority, open_invite};
use org::invite::Invite;

use crate::cast::public;
use crate::harbor::{HARBOR, INVITE, claim, invite};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text, name_of};

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
    vec![invited.bytes(), signed.bytes()]
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let org = HARBOR.founding.id;
    for part in &parts {
        opens_only_as_itself::<Claim>(&part.envelope, Some(org));
        opens_only_as_itself::<Invite>(&part.envelope, Some(org));
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
        (Some((digest, invite)), ClaimAuthority::Invite(id)) => {
            let written = body.invite.as_ref().expect("it has an invite");
            assert_eq!((*digest, invite.id), (written.digest(), id));
            assert_eq!(open_invite(written, HARBOR.founding.id, &[HARBOR.signers().clone()]).as_ref(), Ok(invite));
            assert!(!body.claim.signers_among(&[invite.key].into()).is_empty(), "the invite's key did not sign");
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
