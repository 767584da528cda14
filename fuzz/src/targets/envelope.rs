//! The envelope of all signed objects, as JSON or with signatures that hold.

use std::collections::BTreeSet;
use std::fmt::Debug;

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload};
use identity::head::Head;
use identity::key::PublicKey;
use identity::signers::Succession;
use org::founding::FoundingRecord;
use org::invite::Invite;
use org::invite::admission::{Claim, Leave};
use org::ledger::entry::Entry;
use org::ledger::frontier::Tip;

use crate::cast::{NOW, SIGNERS, public};
use crate::harbor::{HARBOR, Harbor, bundle, claim, quorum};
use crate::laws::{is_an_envelope, opens_only_as_itself};
use crate::sealing::{self, Text};

pub fn seeds() -> Vec<Vec<u8>> {
    let org = Some(HARBOR.founding.id);
    let mut out: Vec<Vec<u8>> = HARBOR.log.iter().map(|signed| json(&signed.envelope)).collect();
    out.push(json(&HARBOR.founding.envelope));
    out.push(json(&HARBOR.claim(1, "web-1")));
    let tip = Tip { voice: public("gw-1"), place: HARBOR.log[3].place(), at: NOW };
    let previous = HARBOR.signers().id;
    let mut add = |write: &dyn Fn(&mut Text) -> usize| {
        let mut text = Text::default();
        write(&mut text);
        out.push(text.bytes());
    };
    add(&|text| text.add(org, &tip, "gw-1", &[]));
    add(&|text| text.add(org, &Harbor::leave(1), "node-1", &[]));
    add(&|text| text.add(org, &claim(2, "web-2"), "node-2 invite-1", &[]));
    add(&|text| text.add(org, &bundle(), "ann ben", &[]));
    add(&|text| {
        text.add(
            org,
            &Succession { version: 2, previous, also: Vec::new(), quorum: quorum(1, &SIGNERS), head: None },
            "ann ann ben",
            &[],
        )
    });
    out
}

fn json(envelope: &Envelope) -> Vec<u8> {
    serde_json::to_vec(envelope).expect("JSON")
}

pub fn check(data: &[u8]) -> bool {
    if data.first() == Some(&b'{') {
        return serde_json::from_slice(data).is_ok_and(|envelope| {
            is_an_envelope(&envelope, Some(data));
            look(&envelope)
        });
    }
    sealing::read(data).is_some_and(|parts| {
        parts.iter().fold(false, |opened, part| {
            is_an_envelope(&part.envelope, None);
            look(&part.envelope) | opened
        })
    })
}

fn look(envelope: &Envelope) -> bool {
    count_distinct(envelope);
    let org = Some(HARBOR.founding.id);
    let opened = [
        opens::<Entry>(envelope, org),
        opens::<Head>(envelope, org),
        opens::<BundleBody>(envelope, org),
        opens::<Succession>(envelope, org),
        opens::<Invite>(envelope, org),
        opens::<Claim>(envelope, org),
        opens::<Leave>(envelope, org),
        opens::<Tip>(envelope, org),
        opens::<FoundingRecord>(envelope, None),
    ];
    let kinds = opened.into_iter().filter(|opened| *opened).count();
    assert!(kinds <= 1, "it opened as {kinds} kinds");
    kinds == 1
}

fn opens<T: Payload + PartialEq + Debug>(envelope: &Envelope, org: Option<identity::id::OrgId>) -> bool {
    opens_only_as_itself::<T>(envelope, org).is_some_and(|body| {
        let keys = everybody();
        let found = envelope.signers_among(&keys).len();
        for threshold in 0..=keys.len() {
            let opened = envelope.open_with_threshold::<T>(org, &keys, threshold);
            assert_eq!(opened.is_ok(), threshold > 0 && found >= threshold, "{found} of {threshold}");
            assert!(opened.is_err() || opened.is_ok_and(|opened| opened == body));
        }
        true
    })
}

fn everybody() -> BTreeSet<PublicKey> {
    ["ann", "ben", "gw-1", "invite-1", "node-1", "node-2"].map(public).into()
}

/// Keeping and merging in any order and however often gives the same; nothing but signatures that hold is kept.
fn count_distinct(envelope: &Envelope) {
    let keys = everybody();
    let found = envelope.signers_among(&keys);
    assert!(found.is_subset(&keys));
    let kept = envelope.kept(&keys);
    assert_eq!((kept.signers_among(&keys), kept.digest()), (found.clone(), envelope.digest()));
    let half: BTreeSet<PublicKey> = keys.iter().copied().step_by(2).collect();
    let (one, other) = (envelope.kept(&half), envelope.kept(&keys.difference(&half).copied().collect()));
    let (mut there, mut back) = (one.clone(), other.clone());
    there.merge(&other);
    there.merge(&other);
    back.merge(&one);
    assert_eq!((&there, &there), (&back, &kept));
}
