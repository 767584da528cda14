//! What programs say to us in SOCKS5, and what a proxy answers us. Each reader is fed as a socket feeds it: exactly so many
//! bytes as it asks for.

use crate::pieces::{Pieces, now};
use tunnel::local::socks_words::{BadWords, Login, Parsed, SocksAddress, greeting, login, request};
use wire::carry::socks::connect;

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
        b"p\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x1d\x13and what follows".to_vec(),
        b"p\x05\x00\x05\x00\x00\x03\x04here\x1d\x13".to_vec(),
        [b"p\x05\x00\x05\x00\x00\x04".as_slice(), &[0; 18]].concat(),
    ]
}

/// A greeting after `g`, a login after `l`, a proxy's answers after `p`, a request after anything else.
pub fn check(data: &[u8]) -> bool {
    match data.split_first() {
        Some((b'p', words)) => answered(words),
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

/// Whatever a proxy says, it comes to an end, and what follows is the gateway's.
fn answered(words: &[u8]) -> bool {
    let run = |size| {
        let mut proxy = Pieces::of(words, size);
        let outcome = now(connect(&mut proxy, &"gw.example:7443".parse().expect("a host")));
        (outcome.map_err(|why| why.to_string()), words.len() - proxy.data.len(), proxy.told)
    };
    let (outcome, used, told) = run(usize::MAX);
    for size in [1, 3] {
        assert_eq!((outcome.clone(), used, told.clone()), run(size), "in pieces of {size} it is the same");
    }
    assert!(used <= 2 + 4 + 1 + 255 + 2, "an answer is bounded");
    let asked = b"\x05\x01\x00\x05\x01\x00\x03\x0agw.example\x1d\x13";
    assert!(asked.starts_with(&told) && (told.len() == 3 || told.len() == asked.len()), "nothing else is said");
    if outcome.is_ok() {
        let rest = match words[5] {
            1 => 4,
            3 => 1 + usize::from(words[6]),
            _ => 16,
        };
        assert_eq!((words[0], words[1], words[2], words[3]), (5, 0, 5, 0), "it said yes");
        assert_eq!(used, 6 + rest + 2, "what follows is not touched");
    }
    outcome.is_ok()
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
