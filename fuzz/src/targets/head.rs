//! The head: signed by the threshold, never going back, never forgetting.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::head::{Cause, Head, Placement, Recorded, Revocations, SignedHead, TrustLine, TrustState};
use identity::id::{Digest, KeyId, Serial};
use identity::time::{Seconds, Timestamp};
use wire::control::{Call, waiting_digest};

use crate::cast::{NOW, public};
use crate::harbor::{HARBOR, INVITE, head};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text};

pub fn seeds() -> Vec<Vec<u8>> {
    let plain = head(1, HARBOR.signers(), Revocations::default());
    let mut node_keys = [public("node-1").digest()].into_iter().collect::<identity::head::KeyLines>();
    node_keys.insert_until(public("node-2").digest(), NOW + Seconds::DAY);
    let revocations = Revocations {
        node_keys,
        issuing_keys: [KeyId([1; 32])].into(),
        serials: [Serial([2; 16])].into(),
        principals: ["spiffe://harbor/user/ann".parse().expect("a principal")].into(),
        invites: [INVITE].into(),
        voices: [public("gw-2")].into(),
    };
    let mut full = head(2, HARBOR.signers(), revocations);
    full.reverts = Some(1);
    full.cause = Cause::FleetRollback { to: 1 };
    full.previous = vec![Digest([6; 32]), Digest([7; 32])];
    full.recent = vec![Digest([6; 32])];
    full.record =
        [(public("gw-1"), HARBOR.log[4].place()), (public("gw-2"), Recorded { seq: 1, digest: Digest([8; 32]) })]
            .into();
    full.members = Some(Digest([3; 32]));
    full.placements = vec![Placement {
        principal: "spiffe://harbor/service/wiki".parse().expect("a principal"),
        node: "web-1".parse().expect("a name"),
    }];
    let states = [(1, TrustState::Retired), (2, TrustState::Grace), (3, TrustState::Active), (4, TrustState::Staged)];
    full.trust = states
        .map(|(version, state): (u64, TrustState)| {
            let bundle = Digest::of(&version.to_be_bytes());
            TrustLine::new(identity::bundle::Domain::Identity, version, bundle, state)
        })
        .to_vec();
    full.release = Some(Digest([5; 32]));
    let text = |bodies: &[&Head]| {
        let mut text = Text::default();
        for body in bodies {
            text.add(Some(HARBOR.founding.id), *body, "ann ben", &[]);
        }
        text.bytes()
    };
    vec![text(&[&plain]), text(&[&full]), text(&[&plain, &full])]
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    waits_as_itself(parts.iter().map(|part| part.envelope.clone()).collect());
    let open = |envelope| SignedHead::open(HARBOR.signers(), envelope).ok();
    let heads: Vec<SignedHead> = parts.iter().filter_map(|part| open(&part.envelope)).collect();
    for part in &parts {
        if let Some(body) = opens_only_as_itself::<Head>(&part.envelope, Some(HARBOR.founding.id)) {
            look(&body);
        }
    }
    for head in &heads {
        assert_eq!(head.head.signers, HARBOR.signers().as_ref(), "signed under the set that it names");
        assert_eq!(head.may_follow(head), Ok(()));
        for other in &heads {
            follow(head, other);
        }
    }
    !heads.is_empty()
}

/// What waits for signatures is called the same whoever has signed, and travels as it is.
fn waits_as_itself(objects: Vec<Envelope>) {
    let bare: Vec<Envelope> = objects.iter().map(|object| object.kept(&BTreeSet::new())).collect();
    assert_eq!(waiting_digest(&objects), waiting_digest(&bare));
    let call = Call::Leave { objects };
    let json = serde_json::to_vec(&call).expect("it travels");
    assert_eq!(wire::http::parse::<Call>(&json).expect("and arrives"), call);
}

fn look(head: &Head) {
    for now in [Timestamp::from_unix(0), NOW, Timestamp::from_unix(i64::MAX)] {
        let joiner = head.check_for_joiner(1, 1, now);
        assert!(
            joiner.is_err() || head.is_fresh(now) && head.place() >= (1, 1) && head.issued_at <= now + Seconds::HOUR
        );
        for mandate in &head.mandates {
            assert!(!mandate.is_active(now) || mandate.not_before <= now && now < mandate.not_after);
            assert!(head.mandate_for_voice(mandate.voice).is_some());
        }
    }
    let trusted = identity::bundle::Domain::Identity;
    assert!(head.trusted_bundles(trusted).all(|line| line.state != TrustState::Retired && line.domain == trusted));
}

fn follow(new: &SignedHead, old: &SignedHead) {
    let mut both = old.head.revocations.clone();
    both.absorb(&new.head.revocations);
    assert!(both.includes(&old.head.revocations) && both.includes(&new.head.revocations));
    let mut again = new.head.revocations.clone();
    again.absorb(&old.head.revocations);
    assert_eq!(both, again, "in either order");
    if new.may_follow(old).is_ok() {
        assert!(new.head.version > old.head.version || new.digest == old.digest, "a head went back");
        assert_eq!(both, new.head.revocations, "a revocation was forgotten");
    }
}
