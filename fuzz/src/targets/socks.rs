//! What programs say in SOCKS5. Each reader is fed as a socket feeds it: exactly so many bytes as it asks for.

use tunnel::local::socks_words::{BadWords, Login, Parsed, SocksAddress, greeting, login, request};

/// The longest of all: a user and a password.
const LONGEST: usize = 513;

pub fn seeds() -> Vec<Vec<u8>> {
    let name = b"wiki.harbor.internal";
    let long = [b"r\x05\x01\x00\x03\xff".as_slice(), &[b'a'; 255], &[1, 187]].concat();
    vec![
        vec![b'g', 5, 1, 0],
        vec![b'g', 5, 3, 0, 1, 2],
        b"l\x01\x05alice\x03sea".to_vec(),
        b"l\x01\x0cservice/wiki\x00".to_vec(),
        [b"r\x05\x01\x00\x03\x14".as_slice(), name, &[0, 80]].concat(),
        long,
        vec![b'r', 5, 1, 0, 1, 127, 64, 1, 2, 0, 80],
        vec![b'r', 5, 2, 0, 1, 127, 0, 0, 1, 0, 80],
        [b"r\x05\x03\x00\x04".as_slice(), &[0; 18]].concat(),
        b"l\x01\x08password\x03sea".to_vec(),
    ]
}

/// A greeting after `g`, a login after `l`, a request after anything else.
pub fn check(data: &[u8]) -> bool {
    match data.split_first() {
        Some((b'g', words)) => feed(words, greeting).is_some(),
        Some((b'l', words)) => {
            let found = feed(words, login);
            if let Some(found) = &found {
                assert_eq!(3 + found.user.len() + found.password.len(), used(words, login), "all of it is in there");
                // The same words whatever the password; a user may be called anything.
                let other = Login { user: found.user.clone(), password: b"another".to_vec().into() };
                assert_eq!(format!("{found:?}"), format!("{other:?}"), "a password is not shown");
            }
            found.is_some()
        }
        Some((_, words)) => {
            let found = feed(words, request);
            if let Some(SocksAddress::Name(name)) = found.as_ref().map(|found| &found.to) {
                assert!(!name.is_empty() && name.chars().count() <= 255, "a name is bounded");
            }
            found.is_some()
        }
        None => false,
    }
}

fn feed<T: PartialEq + std::fmt::Debug>(words: &[u8], parse: fn(&[u8]) -> Result<Parsed<T>, BadWords>) -> Option<T> {
    let have = used(words, parse);
    let Ok(Parsed::Whole(value)) = parse(&words[..have]) else {
        return None;
    };
    // Byte by byte it says the same, and asks for no more than there is.
    for cut in 0..have {
        match parse(&words[..cut]) {
            Ok(Parsed::More(more)) => assert!(more <= have - cut, "what follows is not touched"),
            other => panic!("{other:?} after {cut} of {have} bytes"),
        }
    }
    let further = [&words[..have], &[0]].concat();
    assert_eq!(parse(&further), Err(BadWords::Malformed), "nothing stands behind the words");
    Some(value)
}

/// How far it reads.
fn used<T>(words: &[u8], parse: fn(&[u8]) -> Result<Parsed<T>, BadWords>) -> usize {
    let mut have = 0;
    while let Ok(Parsed::More(more)) = parse(&words[..have]) {
        assert!(more > 0, "it goes on");
        assert!(have + more <= LONGEST, "words are bounded");
        if have + more > words.len() {
            break;
        }
        have += more;
    }
    have
}
