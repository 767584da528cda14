//! The header of a backup, which is an age file: text with one written form, read within bounds, and no more of it is
//! believed than a key proves.

use ground::age::header::{self, Header, Stanza};
use ground::age::keys::{AgeIdentity, Recipient};
use ground::age::wrap::{self, FileKey, NotUnwrapped, Opens};
use ground::archive;
use ground::passphrase::Passphrase;

/// From the specification of age.
const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
/// The most work that is done here for a passphrase.
const CHEAP: u8 = 6;

fn identity() -> AgeIdentity {
    AgeIdentity::parse(IDENTITY).expect("an identity")
}

fn recipient() -> Recipient {
    identity().recipient().expect("a key")
}

fn phrase() -> Passphrase {
    Passphrase::new("correct horse".to_owned())
}

pub fn seeds() -> Vec<Vec<u8>> {
    let key = FileKey::draw().expect("randomness");
    let to = wrap::for_recipients(&key, &[recipient(), recipient()]).expect("a stanza");
    let by_phrase = wrap::for_passphrase(&key, &phrase(), 2).expect("a stanza");
    let grease = Stanza { words: vec!["x-grease".to_owned(), "%&".to_owned()], body: vec![7; 100] };
    let headed = |stanzas: Vec<Stanza>| key.header(stanzas).expect("a header").write();
    vec![
        headed(to.clone()),
        headed(vec![by_phrase]),
        [headed([vec![grease.clone()], to].concat()), vec![0; 40]].concat(),
        headed(vec![Stanza { body: vec![1; 48], ..grease }]),
    ]
}

/// Got to its end: it is a header.
pub fn check(data: &[u8]) -> bool {
    let _ = archive::opens(data);
    for cut in [0, 21, 22, data.len() / 2] {
        // A part of it is a header only if it has all of it.
        let part = data.get(..cut).unwrap_or(data);
        assert!(Header::parse(part).is_err() || Header::parse(part) == Header::parse(data));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        names(text);
    }
    let Ok((header, length)) = Header::parse(data) else {
        return false;
    };
    assert!(length <= header::MAX && header.stanzas.len() <= header::MAX_STANZAS, "a header is bounded");
    let written = &data[..length];
    assert_eq!(header.write(), written, "there is one way to write it");
    assert_eq!(header::covered_in(written), header::covered(&header.stanzas), "all but the MAC is covered");
    opened(&header, written);
    true
}

fn opened(header: &Header, written: &[u8]) {
    let by_identity = wrap::by_identities(header, written, &[identity()]);
    match wrap::opens(header) {
        Ok(Opens::Identity) => {
            let by_phrase = wrap::by_passphrase(header, written, &phrase());
            assert_eq!(by_phrase.err(), Some(NotUnwrapped::NeedsIdentity));
        }
        Ok(Opens::Passphrase) => {
            assert_eq!(header.stanzas.len(), 1, "a passphrase stands alone");
            assert_eq!(by_identity.err(), Some(NotUnwrapped::NeedsPassphrase));
            let work = header.stanzas[0].words.get(2).and_then(|work| work.parse::<u64>().ok());
            // Nobody waits for more here; that it is refused is tested elsewhere.
            if work.is_none_or(|work| work <= CHEAP.into() || work > wrap::MAX_WORK.into()) {
                let _ = wrap::by_passphrase(header, written, &phrase());
            }
        }
        Err(_) => assert!(by_identity.is_err(), "a header that asks for both opens for nobody"),
    }
}

/// Keys are text, too.
fn names(text: &str) {
    for line in text.lines() {
        if let Ok(recipient) = line.parse::<Recipient>() {
            assert_eq!(recipient.to_string(), line, "there is one way to write it");
        }
        if let Some(identity) = AgeIdentity::parse(line) {
            let _ = identity.recipient();
        }
    }
}
