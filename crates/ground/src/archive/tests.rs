//! Streams that are whole, cut, changed and put together anew, in the format of age and in the one before it.

use std::io::Cursor;

use super::*;

/// As little as may be: each test would wait for the real one.
const CHEAP: u8 = 4;

fn with(text: &str) -> With {
    With::Passphrase(Passphrase::new(text.to_owned()))
}

/// In pieces that do not fit the chunks.
fn seal(plain: &[u8]) -> Vec<u8> {
    let to = To::Passphrase(Passphrase::new("p".to_owned()));
    let mut sealer = Sealer::begin_at(Vec::new(), &to, CHEAP).unwrap();
    plain.chunks(10_007).for_each(|piece| sealer.write(piece).unwrap());
    sealer.finish().unwrap()
}

fn seal_first(plain: &[u8]) -> Vec<u8> {
    first::seal(&Passphrase::new("p".to_owned()), plain)
}

/// Both, with where their chunks begin.
fn both(plain: &[u8]) -> [(Vec<u8>, usize); 2] {
    let (age, before) = (seal(plain), seal_first(plain));
    let start = Header::parse(&age).unwrap().1 + NONCE;
    [(age, start), (before, first::HEADER)]
}

fn open(file: &[u8], length: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut opener = Opener::begin(Cursor::new(file), &with("p"))?;
    let mut plain = vec![0; length];
    opener.fill(&mut plain)?;
    opener.expect_end()?;
    Ok(plain)
}

fn plain(length: usize) -> Vec<u8> {
    (0..length).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

#[test]
fn what_goes_in_comes_out_at_every_length_around_a_chunk() {
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5] {
        let plain = plain(length);
        for (file, _) in both(&plain) {
            assert_eq!(open(&file, length).unwrap(), plain, "{length}");
            assert!(open(&file, length + 1).is_err(), "more was taken than there is: {length}");
            assert!(length == 0 || open(&file, length - 1).is_err(), "something was left over: {length}");
        }
    }
}

#[test]
fn it_can_be_read_again_from_its_beginning() {
    let plain = plain(2 * CHUNK + 9);
    for (file, _) in both(&plain) {
        let mut opener = Opener::begin(Cursor::new(&file), &with("p")).unwrap();
        for length in [0, 5, CHUNK, CHUNK + 1, plain.len()] {
            let mut read = vec![0; length];
            opener.fill(&mut read).unwrap();
            assert_eq!(read, plain[..length]);
            assert_eq!(opener.is_at_end().unwrap(), length == plain.len());
            opener.rewind().unwrap();
        }
    }
}

#[test]
fn only_the_right_passphrase_opens() {
    for (file, _) in both(b"secret") {
        let wrong = Opener::begin(Cursor::new(&file), &with("q")).err();
        assert!(matches!(wrong, Some(ArchiveError::NotUnwrapped(NotUnwrapped::WrongPassphrase))), "{wrong:?}");
        let none = Opener::begin(Cursor::new(&file), &With::Identities(Vec::new())).err();
        assert!(matches!(none, Some(ArchiveError::NotUnwrapped(NotUnwrapped::NeedsPassphrase))), "{none:?}");
        assert_eq!(opens(&file[..]).unwrap(), Opens::Passphrase);
    }
}

#[test]
fn each_recipient_opens_it_without_a_passphrase() {
    let identity = |text: &str| AgeIdentity::parse(text).unwrap();
    let own = identity("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX");
    let to = To::Recipients(vec![own.recipient().unwrap(); 2]);
    let mut sealer = Sealer::begin(Vec::new(), &to).unwrap();
    sealer.write(b"secret").unwrap();
    let file = sealer.finish().unwrap();
    assert_eq!(opens(&file[..]).unwrap(), Opens::Identity);
    let mut opener = Opener::begin(Cursor::new(&file), &With::Identities(vec![own])).unwrap();
    let mut read = [0; 6];
    opener.fill(&mut read).unwrap();
    opener.expect_end().unwrap();
    assert_eq!(&read, b"secret");
    assert!(matches!(open(&file, 6), Err(ArchiveError::NotUnwrapped(NotUnwrapped::NeedsIdentity))));
    let nobody = Sealer::begin(Vec::new(), &To::Recipients(Vec::new())).err();
    assert!(matches!(nobody, Some(ArchiveError::NotWrapped(NotWrapped::HowMany))), "{nobody:?}");
}

#[test]
fn a_flipped_bit_is_noticed_wherever_it_is() {
    let length = 2 * CHUNK + 100;
    for (file, start) in both(&plain(length)) {
        let ends = [start, start + CHUNK, start + CHUNK + TAG, start + 2 * (CHUNK + TAG), file.len() - 1];
        for at in (0..start).chain(ends).chain((start..file.len()).step_by(9_973)) {
            let mut changed = file.clone();
            changed[at] ^= 1;
            let why = open(&changed, length).unwrap_err();
            let from = start + at.saturating_sub(start) / (CHUNK + TAG) * (CHUNK + TAG);
            let fits = match why {
                // A changed nonce of an age file shows at its first chunk.
                ArchiveError::Damaged { from: said } => at >= start - NONCE && said == from as u64,
                _ => at < start,
            };
            assert!(fits, "byte {at}: {why:?}");
        }
    }
}

#[test]
fn a_file_that_was_cut_short_or_made_longer_is_noticed() {
    let length = 2 * CHUNK;
    for (file, start) in both(&plain(length)) {
        let whole = CHUNK + TAG;
        let cuts =
            [start, start + 1, start + TAG, start + whole, start + whole + 7, start + whole + TAG, file.len() - 1];
        for cut in (0..start).step_by(7).chain([start - 1]).chain(cuts) {
            assert!(open(&file[..cut], length).is_err(), "cut at {cut}");
            // Also if the reader wants no more than is there.
            assert!(open(&file[..cut], cut.saturating_sub(start) / whole * CHUNK).is_err(), "cut at {cut}");
        }
        assert!(open(&[&file[..], b"x"].concat(), length).is_err());
        assert!(open(&[&file[..], &file[start..]].concat(), length).is_err());
    }
}

#[test]
fn parts_that_were_moved_repeated_or_taken_from_another_file_are_noticed() {
    let length = 3 * CHUNK;
    let other = seal(&plain(length));
    for (file, start) in both(&plain(length)) {
        let part = |file: &[u8], number: usize| file[start..].chunks(CHUNK + TAG).nth(number).unwrap().to_vec();
        let put = |parts: &[Vec<u8>]| [file[..start].to_vec(), parts.concat()].concat();
        let [first, second, third] = [0, 1, 2].map(|number| part(&file, number));
        assert!(open(&put(&[first.clone(), second.clone(), third.clone()]), length).is_ok());
        assert!(open(&put(&[second.clone(), first.clone(), third.clone()]), length).is_err());
        assert!(open(&put(&[first.clone(), first.clone(), third.clone()]), length).is_err());
        assert!(open(&put(&[first.clone(), third.clone()]), 2 * CHUNK).is_err());
        assert!(open(&put(&[first.clone(), part(&other, 1), third.clone()]), length).is_err());
        assert!(open(&put(&[first, second]), 2 * CHUNK).is_err());
    }
}

#[test]
fn an_empty_last_chunk_is_refused_unless_it_is_the_only_one() {
    for parts in [vec![CHUNK, 0], vec![CHUNK, CHUNK, 0]] {
        let to = To::Passphrase(Passphrase::new("p".to_owned()));
        let mut sealer = Sealer::begin_at(Vec::new(), &to, CHEAP).unwrap();
        let length = parts.iter().sum();
        for (at, part) in parts.iter().enumerate() {
            sealer.waiting.extend(vec![7; *part]);
            sealer.seal(at + 1 == parts.len()).unwrap();
        }
        assert!(matches!(open(&sealer.out, length), Err(ArchiveError::Damaged { .. })));
    }
    assert_eq!(open(&seal(b""), 0).unwrap(), b"");
}

#[test]
fn what_asks_for_absurd_work_or_has_an_absurd_header_is_refused_at_once() {
    let file = seal(b"secret");
    let text = String::from_utf8_lossy(&file[..22 + 36]).into_owned();
    assert!(text.contains(" 4\n"), "{text}");
    let costly = |work: &str| {
        let at = text.find(" 4\n").unwrap();
        [&file[..at], work.as_bytes(), &file[at + 2..]].concat()
    };
    for work in [" 21", " 63", " 200"] {
        let why = open(&costly(work), 6).unwrap_err();
        assert!(matches!(why, ArchiveError::NotUnwrapped(NotUnwrapped::TooCostly { .. })), "{why:?}");
    }
    let many = [&b"age-encryption.org/v1\n"[..], &b"-> X25519 AAAA\nAAAA\n".repeat(100_000)].concat();
    let long = [&b"age-encryption.org/v1\n-> X25519 "[..], &b"A".repeat(1 << 20)].concat();
    for file in [many, long] {
        let why = open(&file, 6).unwrap_err();
        assert!(matches!(why, ArchiveError::NotUnwrapped(NotUnwrapped::Header(BadHeader::TooLong))), "{why:?}");
    }
}

#[test]
fn what_is_something_else_is_told_apart() {
    let no = |file: &[u8]| open(file, 0).unwrap_err();
    for file in
        [&b""[..], b"hello", b"age-encryption.org/v1\n", b"freehold backup\n\0\0", b"-----BEGIN PGP MESSAGE-----"]
    {
        assert!(matches!(no(file), ArchiveError::NotAnArchive), "{}", String::from_utf8_lossy(file));
        let short = [b"freehold backup\n".len(), file.len()].into_iter().min().unwrap();
        assert!(opens(&file[..short]).is_err() || file.starts_with(&first::MAGIC));
    }
    assert!(matches!(no(b"age-encryption.org/v2\n"), ArchiveError::Newer { .. }));
    assert!(matches!(no(b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl"), ArchiveError::Armored));
    let mut newer = seal_first(b"");
    newer[19] = 2;
    assert!(matches!(no(&newer), ArchiveError::Newer { .. }));
}
