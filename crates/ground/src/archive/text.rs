//! A short text as an age file of its own, under a passphrase.

use std::io::Cursor;

use zeroize::Zeroizing;

use super::{ArchiveError, CHUNK, Opener, Sealer, To, With, opens};
use crate::age::header::{BadHeader, Header, is_age};
use crate::age::wrap::{NotUnwrapped, Opens, work_of};
use crate::passphrase::Passphrase;

/// 2 to this, times 1 KiB, is 64 MiB of memory: a machine that opens one may be small.
const WORK: u8 = 16;
/// What others make by default costs 256 MiB. Whoever hands a machine another file makes it spend no more.
const MOST: u32 = 18;

#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("the passphrase is wrong, or the file was changed")]
    WrongPassphrase,
    #[error("it is damaged: it was changed, or cut off")]
    Damaged,
    #[error(transparent)]
    Other(#[from] ArchiveError),
}

impl NotOpened {
    fn of(why: ArchiveError) -> Self {
        match why {
            ArchiveError::NotUnwrapped(NotUnwrapped::WrongPassphrase | NotUnwrapped::Changed) => Self::WrongPassphrase,
            ArchiveError::NotUnwrapped(NotUnwrapped::Header(BadHeader::Malformed(_)))
            | ArchiveError::Damaged { .. }
            | ArchiveError::NotAnArchive => Self::Damaged,
            other => Self::Other(other),
        }
    }
}

/// Does it begin as an age file does?
pub fn is_sealed(file: &[u8]) -> bool {
    is_age(file)
}

pub fn seal(text: &[u8], passphrase: Passphrase) -> Result<Vec<u8>, ArchiveError> {
    seal_at(text, passphrase, WORK)
}

fn seal_at(text: &[u8], passphrase: Passphrase, work: u8) -> Result<Vec<u8>, ArchiveError> {
    let mut sealer = Sealer::begin_at(Vec::new(), &To::Passphrase(passphrase), work)?;
    sealer.write(text)?;
    sealer.finish()
}

/// Asks for the passphrase only if one opens it.
pub fn open<E: From<NotOpened>>(
    file: &[u8],
    passphrase: impl FnOnce() -> Result<Passphrase, E>,
) -> Result<Zeroizing<Vec<u8>>, E> {
    let way = opens(file).map_err(NotOpened::of)?;
    if way == Opens::Identity {
        return Err(NotOpened::Other(ArchiveError::NotUnwrapped(NotUnwrapped::NeedsIdentity)).into());
    }
    let work = Header::parse(file).ok().and_then(|(header, _)| work_of(&header));
    if let Some(work) = work.filter(|work| *work > MOST) {
        return Err(NotOpened::Other(ArchiveError::NotUnwrapped(NotUnwrapped::TooCostly { work })).into());
    }
    let with = With::Passphrase(passphrase()?);
    Ok(read(file, &with).map_err(NotOpened::of)?)
}

fn read(file: &[u8], with: &With) -> Result<Zeroizing<Vec<u8>>, ArchiveError> {
    let mut opener = Opener::begin(Cursor::new(file), with)?;
    // No longer than its file, so that nothing is moved while it grows.
    let mut text = Zeroizing::new(Vec::with_capacity(file.len().min(CHUNK)));
    while !opener.is_at_end()? {
        let ready = opener.ready()?;
        text.extend_from_slice(ready);
        opener.at += ready.len();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: u8 = 4;

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    fn opened(file: &[u8], with: &str) -> Result<Zeroizing<Vec<u8>>, NotOpened> {
        open(file, || Ok(phrase(with)))
    }

    fn sealed(text: &[u8]) -> Vec<u8> {
        seal_at(text, phrase("p"), CHEAP).unwrap()
    }

    #[test]
    fn what_goes_in_comes_out_under_its_passphrase_alone() {
        for length in [0, 1, 300, CHUNK, 2 * CHUNK + 1] {
            let text = vec![b'x'; length];
            let file = sealed(&text);
            assert!(is_sealed(&file));
            assert_eq!(&opened(&file, "p").unwrap()[..], text, "{length}");
            assert!(matches!(opened(&file, "q"), Err(NotOpened::WrongPassphrase)));
        }
        assert!(!is_sealed(b"{\"schema\": 1}") && !is_sealed(b""));
    }

    #[test]
    fn every_cut_and_every_change_is_noticed() {
        let file = sealed(b"a short text");
        for cut in 0..file.len() {
            assert!(opened(&file[..cut], "p").is_err(), "cut at {cut}");
        }
        for place in 0..file.len() {
            let mut changed = file.clone();
            changed[place] ^= 1;
            assert!(opened(&changed, "p").is_err(), "changed at {place}");
        }
        assert!(matches!(opened(&file[..file.len() - 1], "p"), Err(NotOpened::Damaged)));
    }

    #[test]
    fn nobody_makes_a_machine_spend_more_than_it_has() {
        let cheap = sealed(b"a short text");
        let at = cheap.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let end = at + cheap[at..].iter().position(|byte| *byte == b'\n').unwrap();
        let costly = [&cheap[..end - 1], b"19", &cheap[end..]].concat();
        let never = || -> Result<Passphrase, NotOpened> { panic!("somebody was asked") };
        let why = open(&costly, never).unwrap_err();
        assert!(
            matches!(why, NotOpened::Other(ArchiveError::NotUnwrapped(NotUnwrapped::TooCostly { work: 19 }))),
            "{why}"
        );
    }

    #[test]
    fn nobody_is_asked_for_the_passphrase_of_what_none_opens() {
        let never = || -> Result<Passphrase, NotOpened> { panic!("somebody was asked") };
        for file in
            [&b""[..], b"age-encryption.org/v1\n", b"age-encryption.org/v9\n", b"-----BEGIN AGE ENCRYPTED FILE-----\n"]
        {
            assert!(open(file, never).is_err());
        }
    }
}
