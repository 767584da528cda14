//! The founding record: its digest is the org's id, and all its signers' threshold signed it.

use identity::id::OrgId;
use org::founding::{Founding, FoundingRecord};
use org::state::State;

use crate::harbor::{founding_record, quorum};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text};

pub fn seeds() -> Vec<Vec<u8>> {
    let three = FoundingRecord {
        signers: quorum(2, &["ann", "ben", "cat"]),
        recovery: quorum(2, &["safe", "gw-1", "gw-2"]),
        ..founding_record()
    };
    let one = FoundingRecord { signers: quorum(1, &["ann"]), ..founding_record() };
    [(founding_record(), "ann ben"), (three, "cat ann"), (one, "ann")]
        .map(|(record, signers)| {
            let mut text = Text::default();
            text.add(None, &record, signers, &[]);
            text.bytes()
        })
        .to_vec()
}

pub fn check(data: &[u8]) -> bool {
    let Some(envelope) = sealing::read(data).and_then(|mut parts| parts.pop()).map(|part| part.envelope) else {
        return false;
    };
    let record = opens_only_as_itself::<FoundingRecord>(&envelope, None);
    let Ok(founding) = Founding::open(envelope.clone()) else {
        return false;
    };
    assert_eq!(record.as_ref(), Some(&founding.record));
    assert_eq!(founding.id, OrgId(envelope.digest().0));
    assert!(Founding::open_expecting(envelope.clone(), founding.id).is_ok());
    assert!(Founding::open_expecting(envelope.clone(), OrgId([0; 32])).is_err(), "it is another org's too");
    for quorum in [&founding.record.signers, &founding.record.recovery] {
        assert!((1..=quorum.signers().len()).contains(&quorum.threshold()) && quorum.signers().len() <= 32);
        assert_eq!(quorum.keys().len(), quorum.signers().len(), "a key is there twice");
    }
    let first = founding.first_signers();
    let signed = envelope.signers_among(&first.quorum.keys()).len();
    assert!(signed >= first.quorum.threshold(), "{signed} signed");
    assert_eq!((first.version, first.id.0), (1, founding.id.0));
    let bare = envelope.kept(&std::collections::BTreeSet::new());
    assert!(Founding::open(bare).is_err(), "it opened without signatures");
    let state = State::of(&founding);
    assert_eq!((state.org, state.signer_set(), state.is_frozen()), (founding.id, &first, false));
    true
}
