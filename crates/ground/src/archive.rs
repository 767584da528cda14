//! A stream that is encrypted under a passphrase: little memory however long it is, and every change of it is noticed.
//!
//! ```text
//! magic 16 | schema 4 | Argon2id memory 4, passes 4, lanes 4 | salt 16 | check 32 | chunk | chunk | ... | last chunk
//! ```
//!
//! Key and check are drawn from the stretched passphrase and the header before the check, so that a changed header and a
//! wrong passphrase show at once. A chunk is 64 KiB under AES-256-GCM; its nonce is its number and whether it is the
//! last one, so that chunks cannot be dropped, repeated, moved, or cut off at the end.

use std::io::{self, Read, Write};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{constant_time, digest, hkdf};
use zeroize::Zeroizing;

use crate::passphrase::Passphrase;
use crate::random;
use crate::sealed::{self, COST, Cost, SealError};

const MAGIC: [u8; 16] = *b"freehold backup\n";
const SCHEMA: u32 = 1;
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// Up to the check, and with it.
const BEFORE_CHECK: usize = 48;
const HEADER: usize = BEFORE_CHECK + 32;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it cannot be read or written")]
    Io(#[from] io::Error),
    #[error("it is not a backup of freehold, or its beginning is damaged")]
    NotAnArchive,
    #[error("it was made by a newer freehold (format {found}; this one knows {SCHEMA}): upgrade freehold")]
    Newer { found: u32 },
    #[error("the passphrase is wrong, or the beginning of the file was changed")]
    WrongPassphrase,
    #[error("the part from byte {from} on is damaged: it was changed, cut off, or does not belong there")]
    Damaged { from: u64 },
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The keys that belong to one header.
struct Keys {
    chunks: LessSafeKey,
    check: [u8; 32],
}

impl Keys {
    fn derive(passphrase: &Passphrase, before_check: &[u8], salt: &[u8], cost: Cost) -> Result<Self, SealError> {
        let stretched = sealed::stretch(passphrase, salt, cost)?;
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"freehold backup v1").extract(&stretched[..]);
        let draw = |label: &[u8]| -> Result<Zeroizing<[u8; 32]>, SealError> {
            let mut out = Zeroizing::new([0; 32]);
            let info = [label, before_check];
            let okm = prk.expand(&info, hkdf::HKDF_SHA256).map_err(|_| SealError::Kdf)?;
            okm.fill(&mut out[..]).map_err(|_| SealError::Kdf)?;
            Ok(out)
        };
        let chunks = UnboundKey::new(&AES_256_GCM, &draw(b"chunks")?[..]).map_err(|_| SealError::Kdf)?;
        Ok(Self { chunks: LessSafeKey::new(chunks), check: *draw(b"check")? })
    }
}

/// Each number is used once under a key, and the key belongs to one file.
fn nonce(number: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    for (to, from) in nonce.iter_mut().skip(3).zip(number.to_be_bytes()) {
        *to = from;
    }
    if let Some(flag) = nonce.last_mut() {
        *flag = u8::from(last);
    }
    Nonce::assume_unique_for_key(nonce)
}

/// Writes. Nothing of it counts before `finish`.
pub struct Sealer<W> {
    out: W,
    key: LessSafeKey,
    number: u64,
    waiting: Zeroizing<Vec<u8>>,
}

impl<W: Write> Sealer<W> {
    pub fn begin(mut out: W, passphrase: &Passphrase) -> Result<Self, ArchiveError> {
        let salt = random::bytes::<16>().map_err(SealError::from)?;
        let numbers = [SCHEMA, COST.memory_kib, COST.passes, COST.lanes];
        let before: Vec<u8> =
            MAGIC.into_iter().chain(numbers.into_iter().flat_map(u32::to_be_bytes)).chain(salt).collect();
        let keys = Keys::derive(passphrase, &before, &salt, COST)?;
        out.write_all(&before)?;
        out.write_all(&keys.check)?;
        let waiting = Zeroizing::new(Vec::with_capacity(CHUNK + TAG));
        Ok(Self { out, key: keys.chunks, number: 0, waiting })
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            if self.waiting.len() == CHUNK {
                self.seal(false)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<W, ArchiveError> {
        self.seal(true)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn seal(&mut self, last: bool) -> Result<(), ArchiveError> {
        let nonce = nonce(self.number, last);
        self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut *self.waiting).map_err(|_| SealError::Kdf)?;
        self.out.write_all(&self.waiting)?;
        self.waiting.clear();
        self.number += 1;
        Ok(())
    }
}

/// Reads. What it hands out was checked, chunk by chunk; that nothing is missing is known at `expect_end`.
pub struct Opener<R> {
    from: R,
    key: LessSafeKey,
    number: u64,
    /// The next chunk as it was read, to know whether it is the last.
    ahead: Vec<u8>,
    open: Zeroizing<Vec<u8>>,
    at: usize,
    ended: bool,
}

impl<R: Read> Opener<R> {
    pub fn begin(
        mut from: R,
        passphrase: impl FnOnce() -> Result<Passphrase, ArchiveError>,
    ) -> Result<Self, ArchiveError> {
        let header = read_up_to(&mut from, HEADER)?;
        let header: [u8; HEADER] = header.try_into().map_err(|_| ArchiveError::NotAnArchive)?;
        let (before, check) = header.split_at(BEFORE_CHECK);
        let (magic, rest) = before.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(ArchiveError::NotAnArchive);
        }
        let (numbers, salt) = rest.split_at(16);
        let mut numbers =
            numbers.chunks_exact(4).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
        let mut next = || numbers.next().ok_or(ArchiveError::NotAnArchive);
        let found = next()?;
        if found != SCHEMA {
            return Err(ArchiveError::Newer { found });
        }
        let cost = Cost { memory_kib: next()?, passes: next()?, lanes: next()? };
        if !cost.is_bearable() {
            return Err(ArchiveError::NotAnArchive);
        }
        let keys = Keys::derive(&passphrase()?, before, salt, cost).map_err(|_| ArchiveError::NotAnArchive)?;
        if constant_time::verify_slices_are_equal(check, &keys.check).is_err() {
            return Err(ArchiveError::WrongPassphrase);
        }
        let ahead = read_up_to(&mut from, CHUNK + TAG)?;
        let open = Zeroizing::new(Vec::new());
        Ok(Self { from, key: keys.chunks, number: 0, ahead, open, at: 0, ended: false })
    }

    /// Fills the whole of `out`.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<(), ArchiveError> {
        let mut rest = out;
        while !rest.is_empty() {
            let ready = self.ready()?;
            if ready.is_empty() {
                // The stream holds, but whoever wrote it wrote less than it announced.
                return Err(ArchiveError::Damaged { from: self.place() });
            }
            let count = ready.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(ready.get(..count).unwrap_or_default());
            rest = later;
            self.at += count;
        }
        Ok(())
    }

    pub fn expect_end(&mut self) -> Result<(), ArchiveError> {
        if self.ready()?.is_empty() { Ok(()) } else { Err(ArchiveError::Damaged { from: self.place() }) }
    }

    /// What is open and not yet handed out; nothing at the end.
    fn ready(&mut self) -> Result<&[u8], ArchiveError> {
        while self.at == self.open.len() && !self.ended {
            let next = read_up_to(&mut self.from, CHUNK + TAG)?;
            let last = next.is_empty();
            let mut chunk = Zeroizing::new(std::mem::replace(&mut self.ahead, next));
            let damaged = ArchiveError::Damaged { from: self.place() };
            let opened = self.key.open_in_place(nonce(self.number, last), Aad::empty(), &mut chunk[..]);
            let length = opened.map_err(|_| damaged)?.len();
            chunk.truncate(length);
            (self.open, self.at, self.ended) = (chunk, 0, last);
            self.number += 1;
        }
        Ok(self.open.get(self.at..).unwrap_or_default())
    }

    /// Where the chunk begins that is next to be opened.
    const fn place(&self) -> u64 {
        HEADER as u64 + self.number * (CHUNK + TAG) as u64
    }
}

fn read_up_to(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of something that comes in parts.
pub struct Sum(digest::Context);

impl Default for Sum {
    fn default() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
}

macro_rules! hidden {
    ($($type:ident$(<$of:ident>)?),*) => {$(
        impl$(<$of>)? std::fmt::Debug for $type$(<$of>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    )*};
}
hidden!(Sealer<W>, Opener<R>, Sum);

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    fn seal(plain: &[u8]) -> Vec<u8> {
        let mut sealer = Sealer::begin(Vec::new(), &phrase("p")).unwrap();
        // In pieces that do not fit the chunks.
        plain.chunks(10_007).for_each(|piece| sealer.write(piece).unwrap());
        sealer.finish().unwrap()
    }

    fn open(file: &[u8], length: usize) -> Result<Vec<u8>, ArchiveError> {
        let mut opener = Opener::begin(file, || Ok(phrase("p")))?;
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
            let (plain, file) = (plain(length), seal(&plain(length)));
            assert_eq!(open(&file, length).unwrap(), plain, "{length}");
            assert!(open(&file, length + 1).is_err(), "more was taken than there is: {length}");
            assert!(length == 0 || open(&file, length - 1).is_err(), "something was left over: {length}");
        }
    }

    #[test]
    fn only_the_right_passphrase_opens() {
        let file = seal(b"secret");
        let wrong = Opener::begin(&file[..], || Ok(phrase("q"))).err();
        assert!(matches!(wrong, Some(ArchiveError::WrongPassphrase)), "{wrong:?}");
    }

    #[test]
    fn a_flipped_bit_is_noticed_wherever_it_is() {
        let length = 2 * CHUNK + 100;
        let file = seal(&plain(length));
        let ends = [HEADER, HEADER + CHUNK, HEADER + CHUNK + TAG, HEADER + 2 * (CHUNK + TAG), file.len() - 1];
        for at in (0..HEADER).step_by(3).chain(ends).chain((HEADER..file.len()).step_by(9_973)) {
            let mut changed = file.clone();
            changed[at] ^= 1;
            let why = open(&changed, length).unwrap_err();
            let fits = match at {
                ..20 => matches!(why, ArchiveError::NotAnArchive | ArchiveError::Newer { .. }),
                // The cost may become unbearable, or only another one.
                20..HEADER => matches!(why, ArchiveError::NotAnArchive | ArchiveError::WrongPassphrase),
                _ => {
                    let from = HEADER + (at - HEADER) / (CHUNK + TAG) * (CHUNK + TAG);
                    matches!(why, ArchiveError::Damaged { from: said } if said == from as u64)
                }
            };
            assert!(fits, "byte {at}: {why:?}");
        }
    }

    #[test]
    fn a_file_that_was_cut_short_or_made_longer_is_noticed() {
        let length = 2 * CHUNK;
        let file = seal(&plain(length));
        let whole = CHUNK + TAG;
        for cut in [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + whole, HEADER + whole + 7, file.len() - 1] {
            assert!(open(&file[..cut], length).is_err(), "cut at {cut}");
            // Also if the reader wants no more than is there.
            assert!(open(&file[..cut], cut.saturating_sub(HEADER) / whole * CHUNK).is_err(), "cut at {cut}");
        }
        assert!(open(&[&file[..], b"x"].concat(), length).is_err());
        assert!(open(&[&file[..], &file[HEADER..]].concat(), length).is_err());
    }

    #[test]
    fn parts_that_were_moved_repeated_or_taken_from_another_file_are_noticed() {
        let length = 3 * CHUNK;
        let (file, other) = (seal(&plain(length)), seal(&plain(length)));
        let part = |file: &[u8], number: usize| file[HEADER..].chunks(CHUNK + TAG).nth(number).unwrap().to_vec();
        let put = |parts: [Vec<u8>; 3]| [file[..HEADER].to_vec(), parts.concat()].concat();
        let [first, second, third] = [0, 1, 2].map(|number| part(&file, number));
        assert!(open(&put([first.clone(), second.clone(), third.clone()]), length).is_ok());
        assert!(open(&put([second.clone(), first.clone(), third.clone()]), length).is_err());
        assert!(open(&put([first.clone(), first.clone(), third.clone()]), length).is_err());
        assert!(open(&put([first.clone(), part(&other, 1), third]), length).is_err());
        assert!(open(&put([first, second, vec![]]), 2 * CHUNK).is_err());
    }
}
